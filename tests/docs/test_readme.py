"""The README's commands, run in order as a new user would, in the cluster that the first command starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, blocks, commands
from tests.docs.started import SESSION, Started

README = (ROOT / "README.md").read_text()
LINES_MAX = 120
TOOLS = {"kcat": "kcat", ".venv/bin/zabka pipeline": "java"}
TOUR = [
    textwrap.dedent(block.text)
    for block in blocks(README)
    if block.language == "sh" and not block.text.startswith("make ")
]


def test_readme_starts_a_cluster_with_two_commands() -> None:
    assert [line for line in commands(README) if line.startswith("make ")] == ["make up", "make test"]


def test_readme_has_at_most_120_lines() -> None:
    assert len(README.splitlines()) <= LINES_MAX


@pytest.mark.parametrize("command", TOUR)
@pytest.mark.timeout(300)
def test_every_command_of_the_readme_tour_succeeds(started: Started, tmp_path: Path, command: str) -> None:
    for beginning, tool in TOOLS.items():
        if command.startswith(beginning) and shutil.which(tool) is None:
            if os.environ.get("CI"):
                pytest.fail(f"CI must have {tool}")
            pytest.skip(f"needs {tool}, which is not on this machine")
    done = started.run(command.replace("seed-3.jsonl", str(tmp_path / "seed-3.jsonl")))
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "Traceback" not in output
    if "/start" in command:
        started.settle()
    if "curl" in command:
        assert '"status":4' not in output and '"status":5' not in output, output


@pytest.mark.parametrize("fixture", ["zabka_cluster", "zabka_world"])
def test_example_test_in_the_readme_passes(tmp_path: Path, fixture: str) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "test_example.py").write_text(example.replace("zabka_cluster", fixture))
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("pytest"), "-q", "-p", "no:cacheprovider"),
            *("-o", f"zabka_settings={SESSION}", "test_example.py"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
