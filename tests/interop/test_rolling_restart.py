"""Rolling restarts with a changed server list and reconfigEnabled=false, of our servers, Apache ZooKeeper's, or
both.

ZooKeeper 3.9.5 servers alone take 1.2 to 3.1 s per step on two cores until they serve, half of it for starting Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.free_ports import free_ports
from tests.ensemble.server.peer_processes import wait_until
from tests.interop.real_zookeeper import MixedEnsemble, missing

SERVES_WITHIN_S = 30.0
needs_no_java = pytest.param((), id="ours")
KINDS = [
    needs_no_java,
    *(
        pytest.param(
            java, id=name, marks=[pytest.mark.long, pytest.mark.skipif(missing() is not None, reason="needs Java")]
        )
        for name, java in (("Java leader", (2, 3)), ("Java newcomer", (1, 4)))
    ),
]


class RollingEnsemble(MixedEnsemble):
    """Ensemble in which the servers in `java` are Apache ZooKeeper's. Each has the server list last written for it."""

    def __init__(self, directory: Path, servers: int, java: tuple[int, ...]) -> None:
        super().__init__(directory, servers, tick_time=2000)
        self.java = java

    def use(self, lines: list[str], *ids: int) -> None:
        for i in ids:
            path = self.config(i)
            kept = [line for line in path.read_text().splitlines() if not line.startswith(("server.", "zabka.control"))]
            path.write_text("\n".join([*kept, *lines]) + "\n")

    def begin(self, i: int) -> None:
        """Start a server and wait until it serves."""
        (self.start_java if i in self.java else self.start)(i)
        wait_until(lambda: self.modes()[i] != "none", SERVES_WITHIN_S)

    def restart(self, i: int, lines: list[str]) -> None:
        self.stop(i)
        self.use(lines, i)
        self.begin(i)
        with self.client(i) as client:
            client.create(f"/kept/after-{i}-")


@contextmanager
def ensemble(directory: Path, servers: int, java: tuple[int, ...], members: int) -> Iterator[RollingEnsemble]:
    """Run servers 1 to `members` of `servers` as one serving ensemble."""
    rolling = RollingEnsemble(directory, servers, java)
    try:
        ids = range(1, members + 1)
        rolling.use(rolling.server_lines[:members], *ids)
        for i in ids:
            (rolling.start_java if i in java else rolling.start)(i)
        rolling.wait_for_quorum()
        with rolling.client(1) as client:
            client.create("/kept")
        yield rolling
    finally:
        rolling.close()


def moved_port(line: str) -> str:
    quorum, election = free_ports(2)
    return re.sub(r":\d+:\d+", f":{quorum}:{election}", line)


def moved_host(line: str) -> str:
    return line.replace("127.0.0.1", "localhost")


@pytest.mark.parametrize("java", KINDS)
def test_ensemble_grown_by_a_rolling_restart_serves_requests(tmp_path: Path, java: tuple[int, ...]) -> None:
    with ensemble(tmp_path, 4, java, members=3) as rolling:
        rolling.use(rolling.server_lines, 4)
        rolling.begin(4)
        for i in (1, 2, 3):
            rolling.restart(i, rolling.server_lines)
        wait_until(lambda: sorted(rolling.modes().values()) == ["follower", "follower", "follower", "leader"])
        for i in (1, 2, 3, 4):
            with rolling.client(i) as client:
                client.sync("/kept")
                assert sorted(client.get_children("/kept")) == ["after-1-", "after-2-", "after-3-"]
            if i not in java:
                assert rolling.log(i).count("server=4") <= 1, "a newcomer is reported once"


@pytest.mark.parametrize("java", KINDS)
@pytest.mark.parametrize("moved", [moved_port, pytest.param(moved_host, marks=pytest.mark.long)])
def test_ensemble_with_a_moved_server_serves_at_every_step(
    tmp_path: Path, java: tuple[int, ...], moved: Callable[[str], str]
) -> None:
    with ensemble(tmp_path, 3, java, members=3) as rolling:
        lines = [moved(rolling.server_lines[0]), *rolling.server_lines[1:]]
        for i in (1, 2, 3):
            rolling.restart(i, lines)
        wait_until(lambda: sorted(rolling.modes().values()) == ["follower", "follower", "leader"])


@pytest.mark.parametrize("java", [needs_no_java, *KINDS[1:2]])
def test_ensemble_shrunk_by_a_rolling_restart_serves_requests(tmp_path: Path, java: tuple[int, ...]) -> None:
    with ensemble(tmp_path, 4, java, members=4) as rolling:
        rolling.stop(4)
        wait_until(lambda: "none" not in rolling.modes().values())
        for i in (1, 2, 3):
            rolling.restart(i, rolling.server_lines[:3])
        wait_until(lambda: sorted(rolling.modes().values()) == ["follower", "follower", "leader"])
