"""Observers that learn from followers instead of the leader (observerMasterPort).

Our observers learn from Apache ZooKeeper 3.9.5's followers, and vice versa.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.free_ports import free_ports
from tests.ensemble.server.peer_processes import wait_until
from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = [pytest.mark.long, needs_java]


def with_masters(directory: Path) -> MixedEnsemble:
    """Return voters 1 to 3 and observer 4, which can learn from followers.

    Each has its own IP address, because all voters accept observers at the same port.
    """
    ensemble = MixedEnsemble(directory, 4, tick_time=500)
    (port,) = free_ports(1)
    for i in ensemble.client_ports:
        text = ensemble.config(i).read_text()
        for number, line in enumerate(ensemble.server_lines, 1):
            moved = line.replace("127.0.0.1", f"127.0.0.{number}") + (":observer" if number == 4 else "")
            text = text.replace(line, moved)
        ensemble.config(i).write_text(f"{text}observerMasterPort={port}\n")
    return ensemble


def observers_of(ensemble: MixedEnsemble, i: int) -> int:
    rows = dict(line.split("\t") for line in ensemble.word(i, "mntr").splitlines() if "\t" in line)
    return int(float(rows.get("zk_synced_observers", "0")))


@pytest.mark.parametrize(
    ("voters", "observer"), [("java", "ours"), ("ours", "java"), ("ours", "ours")], ids=lambda kind: kind
)
def test_observer_moves_to_another_follower_when_one_is_killed(tmp_path: Path, voters: str, observer: str) -> None:
    ensemble = with_masters(tmp_path)
    start = {"java": ensemble.start_java, "ours": ensemble.start}
    try:
        start[voters](1, 2, 3)
        leader = ensemble.wait_for_quorum()
        start[observer](4)
        ensemble.wait_for_quorum()
        assert ensemble.modes()[4] == "observer"
        masters = [i for i in (1, 2, 3) if observers_of(ensemble, i)]
        assert len(masters) == 1 and leader not in masters
        last = 6 - leader - masters[0]
        with ensemble.client(4) as here, ensemble.client(leader) as there:
            here.create("/a", b"0")
            there.set("/a", b"1")
            here.sync("/")
            assert here.get("/a")[0] == b"1"
            here.create("/e", ephemeral=True)
            seen: list[object] = []
            here.get("/a", watch=seen.append)
            there.set("/a", b"2")
            wait_until(lambda: bool(seen))
            ensemble.kill(masters[0])
            wait_until(lambda: ensemble.modes().get(4) == "observer" and observers_of(ensemble, last) == 1)
            here.retry(here.set, "/a", b"3")
            assert there.retry(there.get, "/a")[0] == b"3"
            assert there.exists("/e")
    finally:
        ensemble.close()
