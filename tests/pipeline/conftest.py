"""The Spark session that all tests in this folder share, and a small journal to read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from zabka.journal import events as e
from zabka.journal.events import Event
from zabka.journal.writer import JournalWriter
from zabka.pipeline.session import open_session


def pytest_itemcollected(item: pytest.Item) -> None:
    """Increase the timeout of the first test, which waits for Java to start and for the data that its module shares."""
    if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    if shutil.which("java") is None:
        pytest.skip("needs java (17 or newer) on the PATH for Spark")
    # Turn off Java's optimizing compiler and parallel collector, which cost more time than they save in jobs of
    # seconds.
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        session = open_session("local[2]")
    yield session
    session.stop()


class History:
    """Writer of the journals of a cluster. Its clock advances by one second per event."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now_us = 0
        self.full = False
        """Whether journals that are created from now on are written at the full level."""
        self._writers: dict[str, JournalWriter] = {}

    def write(self, node: str, event: Event) -> None:
        if node not in self._writers:
            self._writers[node] = JournalWriter(
                self.directory / node / "journal",
                node,
                full=self.full,
                clocks=lambda: (self.now_us, self.now_us),
            )
        self.now_us += 1_000_000
        self._writers[node].write(event)
        self._writers[node].flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def outage() -> Callable[[History], None]:
    """Return a function that writes an outage.

    The controller, which also leads t-0, is killed. Broker 2 takes over both roles, and broker 1 restarts.
    """

    def write(history: History) -> None:
        write = history.write
        write("broker-1", e.ControllerElected(1, 1, 1, 1))
        write("broker-1", e.LeaderElected("t", 0, 1, 0, [1, 2], [1, 2], 0, 1, False, "new_topic", 2))
        write("host-1", e.ProcessChanged("broker-1", "down", None, "kill"))
        for peer in ("peer-1", "peer-2"):
            write(peer, e.SessionClosed(9, 5, ["/brokers/ids/1", "/controller"]))
        write("broker-2", e.ControllerElected(2, 2, 2, 6))
        write("broker-2", e.LeaderElected("t", 0, -1, 1, [2], [1, 2], 1, 2, False, "replica_offline", 7))
        write("broker-2", e.LeaderElected("t", 0, 2, 2, [2], [1, 2], 2, 2, False, "offline", 8))
        write("host-1", e.ProcessChanged("broker-1", "running", 7, "start"))
        write("broker-2", e.IsrChanged("t", 0, [1, 2], 2, 2, 3, "caught_up", 2, 9))

    return write
