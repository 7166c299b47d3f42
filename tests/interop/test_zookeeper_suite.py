"""ZooKeeper's own tests of its client pass with our peers, except those listed in `zookeeper_suite/left_out.py`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.kafka_jars import jars
from tests.interop.zookeeper_suite.left_out import CLASSES, FOLDERS, METHODS, PROPERTIES, RUN

VERSION = "3.9.5"
SUITE = Path(__file__).parent / "zookeeper_suite"
KEPT = Path(sys.prefix) / "zookeeper-jars" / VERSION
TESTS_JAR = f"zookeeper-{VERSION}-tests.jar"
PACKAGE = "org/apache/zookeeper/"
ROOT = Path(__file__).parents[2]
SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
"""Digest of the super user (super:test) that ZooKeeper's build configures for these tests."""
CLASS_S = 600.0
"""Time limit in seconds of one test class. Some classes generate much load."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Suite(NamedTuple):
    """Class path of ZooKeeper's tests, and the process that runs their peers."""

    classpath: str
    peers_port: str
    """Port on which this process accepts requests to start and stop peers."""
    peers: Path
    """Directory with the zoo.cfg of each peer that was started."""

    def started(self) -> int:
        """Return how many peers have been started so far."""
        return len(list(self.peers.glob("*.cfg")))


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """Start the process that runs peers, and yield the suite.

    Three of our classes replace classes of ZooKeeper's tests, because they are first on the class path.
    """
    path = jars(SUITE / "pom.xml", KEPT, TESTS_JAR, "Apache ZooKeeper's tests")
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed: what starts our servers from ZooKeeper's tests cannot be compiled")
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-d", classes, "-cp", path, *sorted(SUITE.glob("*.java"))], check=True)
    directory = tmp_path_factory.mktemp("peers")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.interop.zookeeper_suite.peers", str(directory)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as peers:  # fmt: skip
        assert peers.stdout is not None
        try:
            yield Suite(f"{classes}{os.pathsep}{path}", peers.stdout.readline().strip(), directory)
        finally:
            peers.send_signal(signal.SIGTERM)


def test_every_zookeeper_test_class_is_run_or_excluded() -> None:
    jars(SUITE / "pom.xml", KEPT, TESTS_JAR, "Apache ZooKeeper's tests")
    with zipfile.ZipFile(KEPT / TESTS_JAR) as jar:
        found = [
            name.removeprefix(PACKAGE).removesuffix(".class") for name in jar.namelist() if name.startswith(PACKAGE)
        ]
    classes = {name for name in found if name.endswith("Test") and "$" not in name}
    left_out = {name for names in CLASSES.values() for name in names}
    assert not left_out & set(RUN)
    assert left_out | set(RUN) <= classes
    folders = {name.rpartition("/")[0] for name in classes - left_out - set(RUN)}
    assert folders == FOLDERS.keys()
    assert METHODS.keys() | PROPERTIES.keys() <= set(RUN)


@pytest.mark.parametrize("name", RUN)
def test_client_tests_from_the_zookeeper_project_pass(suite: Suite, name: str, tmp_path: Path) -> None:
    left_out = METHODS.get(name, {})
    before = suite.started()
    outcomes = _run(suite, name, list(left_out), tmp_path)
    assert suite.started() > before, "no server of ours was asked"
    assert left_out.keys() <= outcomes["FOUND"].keys()
    assert not outcomes["FAILED"]
    assert outcomes["PASSED"].keys() == outcomes["FOUND"].keys() - left_out.keys()


def _run(suite: Suite, name: str, left_out: list[str], directory: Path) -> dict[str, dict[str, str]]:
    """Run the methods of a test class. Return, for each outcome, the methods with that outcome and their exceptions."""
    command = [
        "java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.serverCnxnFactory=OutsideServer", f"-Doutside.peers={suite.peers_port}",
        f"-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST}",
        f"-Djava.io.tmpdir={directory}", f"-Dbuild.test.dir={directory}",
        *(f"-D{key}={value}" for key, value in PROPERTIES.get(name, {}).items()),
        "-cp", suite.classpath, "RunTests", PACKAGE.replace("/", ".") + name.replace("/", "."), *left_out,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=CLASS_S, check=False)
    outcomes: dict[str, dict[str, str]] = defaultdict(dict)
    for line in done.stdout.splitlines():
        outcome, _, rest = line.partition("\t")
        if outcome in ("FOUND", "PASSED", "SKIPPED", "FAILED"):
            method, _, thrown = rest.partition("\t")
            outcomes[outcome][method] = thrown
    assert done.returncode == 0 and outcomes["FOUND"], done.stdout[-1000:] + done.stderr[-2000:]
    return outcomes
