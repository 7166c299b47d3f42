"""The cluster that the documents' first command starts.

The documents' other commands are changed to use this cluster's ports.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

_PR_SET_PDEATHSIG = 1
SESSION = "zookeeper.session.timeout.ms=3000"
"""Session timeout of the brokers.

The documents tell the reader to watch a killed broker for twice as long.
"""
BY_HAND = "auto.leader.rebalance.enable=false"
"""Setting that disables the check for leader imbalance, which runs every five minutes.

The reader of the tutorial elects a leader by hand instead.
"""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Turn off Java's optimizing compiler and parallel collector, which cost more than they save in a job of seconds."""


def _die_with_the_test_run() -> None:
    """Let the kernel send SIGTERM to this child when the test process dies.

    The child calls this function before it executes `make`, which passes SIGTERM to its own children.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


class Started:
    """A cluster on free ports. It runs the documents' commands, changed to use these ports."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.process = subprocess.Popen(
            ["make", "up", f"ARGS=--data {data} --port 0 --zk-port 0 --kafka-port 0 --set {SESSION} --set {BY_HAND}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_die_with_the_test_run,  # noqa: PLW1509  it calls the kernel alone, and takes no lock
        )
        output = self._until_ready()
        self.url = re.findall(r"zabka is ready: http://(\S+)", output)[0]
        self.zookeeper = re.findall(r"ensemble +(\S+?)[,\s]", output)[0]
        self.kafka = re.findall(r"brokers +(\S+?)[,\s]", output)[0]

    def _until_ready(self) -> str:
        output = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            output += line
            if "zabka is ready" in line:
                return output
        pytest.fail(f"`make up` ended with {self.process.wait()}:\n{output}")

    def end(self) -> str:
        """Send SIGINT only to make, and return the last output.

        This is stricter than Ctrl-C in a terminal, which sends the signal to all processes.
        """
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGINT)
        output = self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(30)
        return output

    def settle(self) -> None:
        """Wait until all running brokers are registered.

        The wait stands for the pause that a reader of the document makes between two commands.
        """
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"http://{self.url}/api/v1/brokers", timeout=10) as answer:
                brokers = json.load(answer)
            # Wait for a broker that was killed and restarted: it cannot register before its old session has expired.
            running = [broker for broker in brokers if broker["process"] != "down"]
            if all((broker["status"] or {}).get("state") == "running" for broker in running):
                return
            time.sleep(0.2)
        pytest.fail(f"the brokers did not settle: {brokers}")

    def bent(self, command: str) -> str:
        """Return a document's command with the addresses and directory of this cluster."""
        for written, real in (
            ("localhost:8080", self.url),
            ("localhost:2181", self.zookeeper),
            ("localhost:9092", self.kafka),
            (".zabka/", f"{self.data}/"),
        ):
            command = command.replace(written, real)
        return command

    def run(self, script: str, timeout_s: float = 280) -> subprocess.CompletedProcess[str]:
        """Run a document's commands in a shell as a reader does. Stop at the first command that fails."""
        return subprocess.run(
            ["bash", "-ec", self.bent(script)],
            cwd=ROOT,
            env={**os.environ, "ZABKA_DATA": str(self.data), "JDK_JAVA_OPTIONS": QUICK_JAVA},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
