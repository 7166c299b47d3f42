"""How long clients of a simulated cluster had to wait, compared with the computed availability of their partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline import outages
from zabka.journal.events import WorkloadProgressed
from zabka.journal.writer import encode_line
from zabka.testing import running_world


def test_producers_wait_for_the_isr_only_with_acks_all(tmp_path: Path) -> None:
    """Producers with acks=all wait for a dead ISR member, and producers with acks=1 do not.

    A follower in the ISR dies. The producers wait until it has left the ISR.
    """
    with running_world(peers=3, brokers=3, seed=5) as cluster:
        cluster.topics.create("orders", 1, 3, config={"min.insync.replicas": "2"})
        for_all, for_one = cluster.workload("orders", acks="all"), cluster.workload("orders", acks="1")
        cluster.let_pass(10)
        state = cluster.topics["orders"].partitions[0]
        follower = next(broker for broker in state.isr if broker != state.leader)
        cluster.brokers[follower].kill()
        cluster.let_pass(20)
        assert for_all.stop().failed == for_one.stop().failed == 0
        journal = cluster.journal()
    progress = {
        entry.event.workload_id: entry.event for entry in journal if isinstance(entry.event, WorkloadProgressed)
    }
    assert [(each.acks, each.running_ms) for each in progress.values()] == [
        ("all", pytest.approx(30_000, abs=200)),
        ("1", pytest.approx(30_000, abs=200)),
    ]
    (path := tmp_path / "run.jsonl").write_bytes(
        b"".join(encode_line(x.node, x.node_seq, x.wall_us, x.mono_us, x.event) for x in journal)
    )
    spent = outages.availability(path)["orders", 0]
    assert 1_500 < spent["isr_stalled"] < 10_000
    assert progress["w1"].waited_ms == pytest.approx(spent["isr_stalled"], abs=100)
    assert (progress["w2"].waited_ms, spent["leader_down"]) == (0, 0)
