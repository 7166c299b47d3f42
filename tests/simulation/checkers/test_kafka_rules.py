"""Rules of Kafka that are not in the model: each violation is reported, and no valid history is reported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.txn import CreateTxn, DeleteTxn, Txn
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import (
    Entry,
    Event,
    IsrProposed,
    LeadershipTaken,
    RecordsReplicated,
    TopicPartition,
)
from zabka.kafka.zk.znodes import LeaderAndIsr, ReplicaAssignment, TopicAssignment, encode_topic
from zabka.simulation.checkers.kafka_rules import KafkaRules
from zabka.simulation.checkers.kafka_znodes import KafkaZnodes, StateWritten, TopicGone

T0 = TopicPartition("t", 0)
TOPIC = encode_topic(TopicAssignment(None, {0: ReplicaAssignment((1,))}))
FIRST_LIFE, SECOND_LIFE = 1, 3
"""Zxids of the two transactions that register broker 2.

The transaction between them deletes the first registration.
"""


class Court:
    """The checker of the rules with fake brokers, and a quorum whose commits the test decides."""

    def __init__(self, *replicas: tuple[int, bool, int], lives: dict[int, int] | None = None) -> None:
        """Create the rules' checker for a world of fake brokers 1, 2, ...

        `replicas` has for each broker: the leader, whether the broker itself leads, and the leader epoch. `lives` are
        the broker epochs known to the controller, which is broker 1 with controller epoch 1.
        """
        self.said: list[str] = []
        self.checked = CheckCounts()
        self.znodes = KafkaZnodes()
        self.zxid = 0
        context = SimpleNamespace(epoch=1, broker_epoch=(lives or {}).get)
        self.nodes: Any = {}
        for broker, (leader, is_leader, epoch) in enumerate(replicas or [(1, True, 0)], 1):
            replica = SimpleNamespace(leader=leader, is_leader=is_leader, leader_epoch=epoch, topic_id="i")
            term = SimpleNamespace(context=context) if broker == 1 else None
            running = SimpleNamespace(
                controller=SimpleNamespace(term=term), replicas=SimpleNamespace(partitions={T0: replica})
            )
            self.nodes[broker] = SimpleNamespace(broker=running)
        self.rules = KafkaRules(
            self.znodes, self.nodes, self.checked, lambda rule, name, detail: self.said.append(rule)
        )

    def commit(self, body: CreateTxn | DeleteTxn) -> None:
        self.zxid += 1
        for change in self.znodes.committed(Txn(SessionId(1), 1, Zxid(self.zxid), 0, OpCode.MULTI, body)):
            if isinstance(change, TopicGone):
                self.rules.gone(change.topic)

    def create(self, path: str, data: bytes = b"{}") -> None:
        self.commit(CreateTxn(path, data, OPEN_ACL, False, 1))

    def delete(self, path: str) -> None:
        self.commit(DeleteTxn(path))

    def hear(self, event: Event) -> None:
        self.rules.journalled(Entry("broker-2", 1, 0, 0, event))


@pytest.mark.parametrize(
    ("leads", "epoch", "said"), [(True, 3, []), (True, 4, []), (True, 2, ["FetchesNameOneEpoch"]), (False, 2, [])]
)
def test_fetch_from_a_leader_of_an_earlier_epoch_is_a_violation(leads: bool, epoch: int, said: list[str]) -> None:
    # A broker that leads in a later epoch may have answered this fetch in the earlier epoch. A broker that no longer
    # leads is not checked.
    court = Court((1, leads, epoch), (1, False, 3))
    court.hear(RecordsReplicated(2, "t", 0, 3, 0, 0, 7))
    assert court.said == said


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (FIRST_LIFE, []),
        (SECOND_LIFE, ["OneLifeJoins"]),
        (None, []),
    ],
)
def test_isr_join_with_another_broker_epoch_is_a_violation(known: int | None, said: list[str]) -> None:
    # A controller that has not read the second registration yet may accept an ISR change with the first one's broker
    # epoch.
    court = Court(lives={} if known is None else {2: known})
    court.create("/brokers/ids/2")
    court.hear(IsrProposed(1, "t", 0, [1, 2], 0, 5, "caught_up", []))
    court.delete("/brokers/ids/2")
    court.create("/brokers/ids/2")
    assert court.znodes.brokers == {2: SECOND_LIFE}
    court.rules.wrote(StateWritten(T0, LeaderAndIsr(1, 0, (1,), 1, 5), LeaderAndIsr(1, 0, (1, 2), 1, 6)))
    assert court.said == said


@pytest.mark.parametrize(("known", "said"), [(FIRST_LIFE, []), (SECOND_LIFE, ["OneLifeJoins"])])
def test_isr_proposal_for_expired_broker_needs_its_last_epoch(known: int, said: list[str]) -> None:
    court = Court(lives={2: known})
    court.create("/brokers/ids/2")
    court.delete("/brokers/ids/2")
    court.hear(IsrProposed(1, "t", 0, [1, 2], 0, 5, "caught_up", []))
    court.create("/brokers/ids/2")
    court.rules.wrote(StateWritten(T0, LeaderAndIsr(1, 0, (1,), 1, 5), LeaderAndIsr(1, 0, (1, 2), 1, 6)))
    assert court.said == said


def test_isr_of_an_election_or_without_new_members_is_allowed() -> None:
    court = Court(lives={2: 9})
    court.hear(IsrProposed(1, "t", 0, [1, 2], 0, 5, "caught_up", []))
    court.rules.wrote(StateWritten(T0, LeaderAndIsr(1, 0, (1, 2), 1, 5), LeaderAndIsr(1, 0, (1, 2), 1, 6)))
    court.rules.wrote(StateWritten(T0, LeaderAndIsr(1, 0, (1,), 1, 5), LeaderAndIsr(2, 1, (2,), 1, 6)))
    assert court.said == []


@pytest.mark.parametrize(("asked", "said"), [(True, []), (False, ["TopicsGoWhenAsked"])])
def test_topic_removed_without_a_deletion_request_is_a_violation(asked: bool, said: list[str]) -> None:
    court = Court()
    court.create("/brokers/topics/t", TOPIC)
    if asked:
        court.create("/admin/delete_topics/t")
    court.delete("/brokers/topics/t")
    assert court.said == said


@pytest.mark.parametrize(("made_again", "said"), [(False, ["GoneTopicsStayGone"]), (True, [])])
def test_leadership_of_a_deleted_topic_is_a_violation(made_again: bool, said: list[str]) -> None:
    court = Court()
    court.create("/brokers/topics/t", TOPIC)
    court.hear(LeadershipTaken(1, "t", 0, 0, 0, 0))
    court.create("/admin/delete_topics/t")
    court.delete("/brokers/topics/t")
    if made_again:
        court.create("/brokers/topics/t", TOPIC)
    court.hear(LeadershipTaken(1, "t", 0, 1, 0, 0))
    assert court.said == said
