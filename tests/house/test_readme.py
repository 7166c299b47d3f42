"""The README's commands, run as a newcomer would, against the cluster that its first command starts."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1
SESSION = "zookeeper.session.timeout.ms=3000"
"""Half of what a reader is given to watch a killed broker."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a job of seconds Java's optimizing compiler and parallel collector take more than they give back."""
README = (ROOT / "README.md").read_text()
TOOLS = {"kcat": "kcat", ".venv/bin/zabka pipeline": "java"}


def commands() -> list[str]:
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", README, re.DOTALL | re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


TOUR = [line for line in commands() if not line.startswith("make ")]


def die_with_the_test_run() -> None:
    """In the child, before it is `make`: make passes SIGTERM on to what it started."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


class Started:
    """A cluster on free ports, and the README's commands bent to them."""

    def __init__(self, process: subprocess.Popen[str], data: Path, said: str) -> None:
        self.process = process
        self.data = data
        self.url = re.findall(r"zabka is ready: http://(\S+)", said)[0]
        self.zookeeper = re.findall(r"ensemble +(\S+?)[,\s]", said)[0]
        self.kafka = re.findall(r"brokers +(\S+?)[,\s]", said)[0]

    def settle(self) -> None:
        """A reader takes a moment between two commands: until every broker that runs is registered."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"http://{self.url}/api/v1/brokers", timeout=10) as answer:
                brokers = json.load(answer)
            # A broker that was killed and started waits until its old session has expired.
            if all((broker["status"] or {}).get("state") == "running" for broker in brokers):
                return
            time.sleep(0.2)
        pytest.fail(f"the brokers did not settle: {brokers}")

    def bent(self, command: str) -> str:
        for written, real in (
            ("localhost:8080", self.url),
            ("localhost:2181", self.zookeeper),
            ("localhost:9092", self.kafka),
        ):
            command = command.replace(written, real)
        return command


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    data = tmp_path_factory.mktemp("readme") / "data"
    process = subprocess.Popen(
        ["make", "up", f"ARGS=--data {data} --port 0 --zk-port 0 --kafka-port 0 --set {SESSION}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=die_with_the_test_run,  # noqa: PLW1509  it calls the kernel alone, and takes no lock
    )
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if "zabka is ready" in line:
            break
    else:
        pytest.fail(f"`make up` ended with {process.wait()}:\n{said}")
    yield Started(process, data, said)
    # To make alone: what a terminal sends to all of them is the easier case.
    process.send_signal(signal.SIGINT)
    said = process.stdout.read()
    process.stdout.close()
    process.wait(30)
    assert "stopped" in said


def test_the_readme_begins_with_two_commands() -> None:
    assert [line for line in commands() if line.startswith("make ")] == ["make up", "make test"]


@pytest.mark.parametrize("command", TOUR)
@pytest.mark.timeout(300)
def test_a_command_of_the_tour_works(started: Started, tmp_path: Path, command: str) -> None:
    for beginning, tool in TOOLS.items():
        if command.startswith(beginning) and shutil.which(tool) is None:
            if os.environ.get("CI"):
                pytest.fail(f"CI is to have {tool}")
            pytest.skip(f"needs {tool}, which is not on this machine")
    if "/start" not in command:
        started.settle()
    done = subprocess.run(
        ["bash", "-ec", started.bent(command).replace("seed-7.jsonl", str(tmp_path / "seed-7.jsonl"))],
        cwd=ROOT,
        env={**os.environ, "ZABKA_DATA": str(started.data), "JDK_JAVA_OPTIONS": QUICK_JAVA},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Traceback" not in said
    if command.startswith("curl"):
        assert '"status":4' not in said and '"status":5' not in said, said


def test_every_file_the_readme_links_to_exists() -> None:
    linked = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert linked
    assert [name for name in linked if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("fixture", ["zabka_cluster", "zabka_world"])
def test_the_example_for_test_authors_passes(tmp_path: Path, fixture: str) -> None:
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
