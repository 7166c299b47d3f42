"""Shell blocks of the documents: each command is either run, or excluded with a reason.

The README and the tutorial `three-elections` are not included, because they have tests of their own.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tests.docs.documents import ROOT, blocks, commands, documents, name_of
from tests.docs.started import Started

EXCUSED = {
    "mkdir points": "test_deterministic_tests runs the tutorial's code",
    "python3 -m venv .venv": "test_deterministic_tests runs the tutorial's code",
    "pip install pytest": "test_deterministic_tests runs the tutorial's code",
    "pytest -q test_points": "test_deterministic_tests runs the tutorial's code",
    ".venv/bin/python -m pytest ": "the suite runs these tests by itself",
    "make mutants ": "trying two hundred mutants takes long; tests/mutation holds what the tool does",
    "make reference": "it writes the pages; test_reference compares them",
    "make up ARGS=": "another cluster with a full journal; the first one is started in the same way",
    "for s in 1 2 3 10 20": (
        "25 histories take a minute; test_command_in_contributing_writes_the_history_hash_file runs it for one"
    ),
    ".venv/bin/zabka simulate --seeds 0-": "the README's tour simulates four seeds",
    "pip install .": "test_wheel and `make dist` install the wheel into environments of their own",
    "make compose-up": "make test-compose runs it",
    "make compose-down": "make test-compose runs it",
    "docker ": "make test-compose runs the composition",
    "TOKEN=$(docker ": "make test-compose runs the composition",
    'curl -s -X POST -H "Authorization: Bearer $TOKEN"': "make test-compose runs the composition",
    "curl -f -H 'Authorization: digest root:password'": "it needs an admin server; test_restore.py makes the requests",
    "podman-compose ": "make test-compose runs the composition under Podman",
    "kubectl ": "there is no Kubernetes here; tests/compose/test_manifests.py holds the file",
    ".venv/bin/zabka agent --hosts ": "it needs three hosts; tests/compose/test_host_networks.py makes them",
    "kcat ": "the README's tour has the same command, and knows where kcat is missing",
}
"""Reasons why commands of the documentation are not run here, keyed by the start of the command."""
ELSEWHERE = ("README.md", "docs/tutorial/three-elections.md")
PAGES = [path for path in documents() if name_of(path) not in ELSEWHERE and commands(path.read_text())]
_WRITTEN = re.compile(r"\b(seed-\d+\.jsonl|hashes\.txt|searches/\w+|zabka\.yaml)\b")


AFTER_AN_OUTAGE = ("docs/how-to/find-out-why-an-isr-shrank.md",)
"""Pages with commands that work only after an outage."""


def have_an_outage(started: Started) -> None:
    """Cause an outage: kill the leader of orders-0, wait until another broker leads, and restart the killed broker."""
    api = f"http://{started.url}/api/v1"
    made = started.run(
        ".venv/bin/zabka topics --create --if-not-exists --topic orders --partitions 3 --replication-factor 3"
    )
    assert made.returncode == 0, made.stderr
    with httpx.Client(trust_env=False, timeout=30) as http:

        def leader() -> int:
            partitions = http.get(f"{api}/topics/orders").raise_for_status().json()["partitions"]
            return int(partitions[0]["leader"])

        killed = leader()
        http.post(f"{api}/brokers/{killed}/kill").raise_for_status()
        deadline = time.monotonic() + 60
        while leader() in (killed, -1):
            assert time.monotonic() < deadline, "no other leader was elected"
            time.sleep(0.2)
        http.post(f"{api}/brokers/{killed}/start").raise_for_status()


def excuse(line: str) -> str | None:
    return next((reason for beginning, reason in EXCUSED.items() if line.startswith(beginning)), None)


def script(path: Path) -> str:
    """Return the page's shell commands, without the excluded ones."""
    lines = [line for block in blocks(path.read_text()) if block.language == "sh" for line in block.text.splitlines()]
    return "\n".join(line for line in lines if excuse(line.strip()) is None)


@pytest.mark.parametrize("path", [page for page in PAGES if script(page).strip()], ids=name_of)
def test_shell_commands_of_each_page_succeed(started: Started, tmp_path: Path, path: Path) -> None:
    if name_of(path) in AFTER_AN_OUTAGE:
        have_an_outage(started)
    started.settle()
    done = started.run(_WRITTEN.sub(lambda found: str(tmp_path / found.group()), script(path)), timeout_s=120)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "Traceback" not in output


def test_command_in_contributing_writes_the_history_hash_file(tmp_path: Path) -> None:
    (command,) = [line for line in commands((ROOT / "CONTRIBUTING.md").read_text()) if "hashes.txt" in line]
    shorter = re.sub(r"in 1 2 3 10 20;(.*) in chaos [\w -]+;", r"in 1;\1 in ensemble;", command)
    assert shorter != command
    file = tmp_path / "hashes.txt"
    subprocess.run(["bash", "-ec", shorter.replace("hashes.txt", str(file))], cwd=ROOT, check=True, timeout=120)
    assert re.fullmatch(r"ensemble 1 [0-9a-f]{64}\n", file.read_text())


def test_every_excluded_command_exists_in_the_documents() -> None:
    lines = [line for path in documents() for line in commands(path.read_text())]
    assert [beginning for beginning in EXCUSED if not any(line.startswith(beginning) for line in lines)] == []
