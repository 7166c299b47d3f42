"""The cluster started by the documents' first command. Other commands are adapted to its ports."""

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
"""Half of the time that the documents allow a reader to watch a killed broker."""
BY_HAND = "auto.leader.rebalance.enable=false"
"""Disable the controller's check of preferred leaders every five minutes: the tutorial's reader elects one by hand.
"""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""In a job of a few seconds, Java's optimizing compiler and parallel collector cost more than they save."""


def _die_with_the_test_run() -> None:
    """Run in the child before it becomes `make`. `make` passes SIGTERM to its children."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


class Started:
    """A cluster on free ports, and the documents' commands adapted to it."""

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
        """Send SIGINT to make alone, and return the last output. This is a stricter test than Ctrl-C in a terminal,
        which signals all processes.
        """
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGINT)
        output = self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(30)
        return output

    def settle(self) -> None:
        """Wait until every running broker is registered, since a reader also pauses between two commands."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"http://{self.url}/api/v1/brokers", timeout=10) as answer:
                brokers = json.load(answer)
            # Wait for a broker that was killed and restarted: it registers only when its old session has expired.
            running = [broker for broker in brokers if broker["process"] != "down"]
            if all((broker["status"] or {}).get("state") == "running" for broker in running):
                return
            time.sleep(0.2)
        pytest.fail(f"the brokers did not settle: {brokers}")

    def bent(self, command: str) -> str:
        """Return a document's command, adapted to this cluster."""
        for written, real in (
            ("localhost:8080", self.url),
            ("localhost:2181", self.zookeeper),
            ("localhost:9092", self.kafka),
            (".zabka/", f"{self.data}/"),
        ):
            command = command.replace(written, real)
        return command

    def run(self, script: str, timeout_s: float = 280) -> subprocess.CompletedProcess[str]:
        """Run a document's commands as a reader does. Stop at the first that fails."""
        return subprocess.run(
            ["bash", "-ec", self.bent(script)],
            cwd=ROOT,
            env={**os.environ, "ZABKA_DATA": str(self.data), "JDK_JAVA_OPTIONS": QUICK_JAVA},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
