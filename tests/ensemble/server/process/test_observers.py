"""Observers as real processes: they answer reads without voting, and survive the loss of leaders and quorums."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ensemble.server.peer_processes import Ensemble, wait_until

READS = 300


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Yield an ensemble with voters 1 to 3 and observers 4 and 5."""
    ensemble = Ensemble(tmp_path_factory.mktemp("watched"), 5, tick_time=200)
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
    """Return the number of packets that a server has received from clients."""
    row = next(line for line in ensemble.word(i, "mntr").splitlines() if line.startswith("zk_packets_received\t"))
    return int(row.split("\t")[1])


def metrics(ensemble: Ensemble, i: int) -> dict[str, str]:
    rows = (line.removeprefix("zk_").split("\t") for line in ensemble.word(i, "mntr").splitlines())
    return dict(rows)


def test_each_role_reports_its_own_metrics(watched: Ensemble) -> None:
    leader = watched.leader()
    assert leader is not None
    with watched.client(4) as client:
        client.create("/counted", b"0")
        follower = next(i for i in (1, 2, 3) if i != leader)
        wait_until(lambda: metrics(watched, leader)["synced_observers"] == "2")
        # Each stage of the leader and of the follower has counted at least two transactions: the session's and the
        # znode's. Wait for these counts, because the follower can receive a commit after the client's reply, and its
        # disk may lag.
        stages = {
            leader: ("quorum_ack_latency", "proposal_ack_creation_latency", "sync_process_time"),
            follower: ("commit_propagation_latency", "proposal_latency", "proposal_ack_creation_latency"),
        }

        def counts() -> list[int]:
            values = {server: metrics(watched, server) for server in stages}
            return [int(values[server][f"cnt_{stage}"]) for server, names in stages.items() for stage in names]

        wait_until(lambda: all(count >= 2 for count in counts()))
        of_leader, of_observer, of_follower = (metrics(watched, i) for i in (leader, 4, follower))
    only_leaders = {
        "last_proposal_size", "leader_uptime", "learners", "max_proposal_size", "min_proposal_size", "pending_syncs",
        "synced_followers", "synced_non_voting_followers", "synced_observers",
    }  # fmt: skip
    assert only_leaders <= of_leader.keys() and not only_leaders & (of_follower.keys() | of_observer.keys())
    assert of_observer["observer_master_id"] == str(leader)
    assert of_leader["cnt_proposal_latency"] == of_leader["cnt_commit_propagation_latency"] == "0"
    assert of_follower["cnt_quorum_ack_latency"] == "0"


def test_observers_follow_each_new_leader_and_wait_for_a_quorum(watched: Ensemble) -> None:
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

        # With one of three voters there is no leader, so neither voters nor observers accept requests.
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
