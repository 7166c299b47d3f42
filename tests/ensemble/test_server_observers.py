"""Observers as real processes: they serve reads without the voters, and outlive leaders and quorums."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peer_processes import Ensemble, wait_until

READS = 300


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Ensemble]:
    """Voters 1 to 3, observers 4 and 5."""
    ensemble = Ensemble(tmp_path, 5, tick_time=200)
    for i in ensemble.client_ports:
        config = ensemble.config(i)
        text = config.read_text()
        for observer in ensemble.server_lines[3:]:
            text = text.replace(observer, f"{observer}:observer")
        config.write_text(text)
    ensemble.start()
    try:
        ensemble.wait_for_quorum()
        yield ensemble
    finally:
        ensemble.close()


def received(ensemble: Ensemble, i: int) -> int:
    """Packets that clients have sent to a server."""
    row = next(line for line in ensemble.word(i, "mntr").splitlines() if line.startswith("zk_packets_received\t"))
    return int(row.split("\t")[1])


def test_observers_follow_every_leader_and_wait_for_a_quorum(watched: Ensemble) -> None:
    modes = watched.modes()
    assert [modes[4], modes[5]] == ["observer", "observer"]
    leader = watched.leader()
    assert leader is not None
    with watched.client(4) as client:
        client.create("/value", b"0")
        before = {i: received(watched, i) for i in (1, 2, 3)}
        for _ in range(READS):
            assert client.get("/value")[0] == b"0"
        assert all(received(watched, i) - before[i] < READS / 10 for i in before), "the voters had to help"

        watched.kill(leader)
        client.retry(client.set, "/value", b"1")
        wait_until(lambda: watched.leader() not in (None, leader))

        # One voter of three is left: nothing may be served, at the observers either.
        others = [i for i in (1, 2, 3) if i != leader]
        watched.kill(others[0])
        wait_until(lambda: set(watched.modes().values()) == {"none"})

        watched.start(others[0], leader)
        watched.wait_for_quorum()
        client.retry(client.set, "/value", b"2")
    for i in watched.client_ports:
        with watched.client(i) as client:
            client.sync("/value")
            assert client.get("/value")[0] == b"2"
