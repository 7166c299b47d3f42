"""ISR changes that leaders write to ZooKeeper, and their notifications (kafka.server.ZkIsrManager, before Kafka
2.7).
"""

from __future__ import annotations

from random import Random

from tests.controller.fake_ensemble import FakeEnsemble, FakeSession
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.replication.partition_host import IsrAnswer, IsrProposal
from zabka.broker_sim.replication.zookeeper_isr import ZooKeeperIsrWriter
from zabka.journal.events import TopicPartition
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.znodes import LeaderAndIsr
from zabka.simulation.engine.scheduler import Scheduler

TP = TopicPartition("orders", 0)
STATE = znodes.partition_state_path(TP)


class Leader:
    """Leader whose ISR changes when the test requests it."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.ensemble = FakeEnsemble()
        for path in (*znodes.PERSISTENT_PATHS, "/brokers/topics/orders/partitions/0"):
            self.ensemble.put(path)
        self.ensemble.put(STATE, znodes.encode_partition_state(LeaderAndIsr(1, 0, (1, 2), 1)))
        runtime = SimRuntime(self.scheduler, Random(1))
        session = FakeSession(self.ensemble, runtime)
        session.open()
        self.writer = ZooKeeperIsrWriter(1, Zk(session, runtime), runtime, lambda event: "")
        self.answers: list[IsrAnswer] = []
        self.version = 0

    def proposal(self) -> IsrProposal:
        isr = (1,) if self.version % 2 == 0 else (1, 2)
        return IsrProposal(
            topic_partition=TP, topic_id=None, leader_epoch=0, partition_epoch=self.version, isr=isr,
            member_epochs=(-1,) * len(isr), recovery_state=0, is_shrink=len(isr) == 1, moved=(), controller_epoch=1,
            answered=self.answers.append,
        )  # fmt: skip

    def change(self) -> None:
        assert self.writer.submit(self.proposal())
        self.run(10)
        self.version = self.answers[-1].partition_epoch

    def run(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)

    @property
    def notes(self) -> int:
        return sum(path.startswith(f"{znodes.ISR_CHANGE_NOTIFICATION}/") for path in self.ensemble.nodes)


def test_isr_notification_is_written_5_seconds_after_the_change() -> None:
    leader = Leader()
    leader.change()
    assert (leader.answers[-1].error, leader.answers[-1].isr, leader.version) == (0, (1,), 1)
    leader.run(4_900)
    assert leader.notes == 0
    leader.run(2_700)
    assert leader.notes == 1
    leader.run(60_000)
    assert leader.notes == 1


def test_closed_isr_manager_writes_nothing() -> None:
    leader = Leader()
    leader.change()
    proposal = leader.proposal()
    assert leader.writer.submit(proposal) and not leader.writer.submit(proposal), "one at a time"
    leader.writer.close()
    assert not leader.writer.submit(proposal)
    leader.run(60_000)
    assert len(leader.answers) == 1 and leader.notes == 0


def test_continuous_isr_changes_cause_one_notification_a_minute() -> None:
    leader = Leader()
    noted_s = []
    for second in range(0, 130, 2):
        leader.change()
        leader.run(1_990)
        if leader.notes > len(noted_s):
            noted_s.append(second)
    # An ISR change is announced after at most MaxDelay, a minute, which is checked every two and a half seconds.
    assert len(noted_s) == 2
    assert 58 <= noted_s[0] <= 64 and 60 <= noted_s[1] - noted_s[0] <= 66
