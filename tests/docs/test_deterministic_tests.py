"""The tutorial about deterministic tests: its service fails with the seed that the tutorial names, and passes after
the tutorial's correction.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "tutorial" / "deterministic-tests.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.S)


def blocks(first_line: str) -> list[str]:
    return [block.partition("\n")[2] for block in BLOCKS if block.partition("\n")[0] == first_line]


SERVICE, CORRECTED = blocks("# points.py")
(TEST,) = blocks("# test_points.py")
(DECORATOR,) = blocks("# test_points.py: the decorator")
(NOTING_TEST,) = blocks("# test_points.py: the service")
(NOTING,) = blocks("# points.py: with notes")
PLAIN = "@simulated(seeds=50)\n"
(SEED,) = set(re.findall(r"--zabka-seed (\d+)", TEXT))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "points.py").write_text(SERVICE)
    (tmp_path / "test_points.py").write_text(TEST)
    return tmp_path


def run(project: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_points.py", *options]
    done = subprocess.run(
        command, cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def with_faults(project: Path) -> None:
    path = project / "test_points.py"
    assert PLAIN in path.read_text()
    path.write_text(path.read_text().replace(PLAIN, DECORATOR))


def test_tutorial_service_passes_without_faults(project: Path) -> None:
    assert "1 passed" in run(project, "--zabka-seeds", "0:2")


@pytest.mark.timeout(300)
def test_seed_named_by_the_tutorial_finds_the_bug(project: Path) -> None:
    with_faults(project)
    before, after = NOTING.split("    ...\n")
    (project / "points.py").write_text(
        SERVICE.replace("async def give_points(bootstrap, path):\n", before).partition("            path.write_text")[0]
        + after
    )
    path = project / "test_points.py"
    start, end = path.read_text().split("    async def points(bootstrap):\n")
    path.write_text(start + NOTING_TEST + end.partition("\n")[2])
    text = run(project, "--zabka-seed", SEED)
    assert "assert 210 == (10 * 20)" in TEXT and "assert 210 == (10 * 20)" in text, text
    (story,) = re.findall(r"```text\n( +[\d.]+  points: points given.*?)```", TEXT, re.S)
    for line in story.splitlines():
        assert line.strip() in text, text


@pytest.mark.timeout(300)
def test_corrected_tutorial_service_passes_with_faults(project: Path) -> None:
    with_faults(project)
    (project / "points.py").write_text(CORRECTED)
    assert "1 passed" in run(project, "--zabka-seeds", f"{SEED}:{int(SEED) + 4}")
