"""A controller that selects a broker in a controlled shutdown as leader or ISR member is reported.

The checker uses the controller's state.
"""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.txn import CreateTxn, Txn
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import ControllerElected, Entry, TopicPartition
from zabka.kafka.wire.frames import ResponseEncoder, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request, respond
from zabka.kafka.zk.znodes import LeaderAndIsr
from zabka.simulation.checkers.kafka_znodes import KafkaZnodes, Registered, StateWritten
from zabka.simulation.checkers.shutdowns import NAME, Shutdowns

T0 = TopicPartition("t", 0)
EPOCH, OTHER_EPOCH = 4, 5
BROKER_EPOCH = 7
"""Broker epoch of broker 2's registration."""


def state(leader: int, isr: tuple[int, ...], epoch: int = EPOCH) -> LeaderAndIsr:
    return LeaderAndIsr(leader=leader, leader_epoch=0, isr=isr, partition_epoch=0, controller_epoch=epoch)


class Controller:
    """Broker 1, which is the controller, and a connection on which broker 2 requests a controlled shutdown."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.checked = CheckCounts()
        znodes = KafkaZnodes()
        registration = CreateTxn("/brokers/ids/2", b"{}", OPEN_ACL, True, 1)
        list(znodes.committed(Txn(SessionId(1), 1, Zxid(BROKER_EPOCH), 0, OpCode.CREATE, registration)))
        self.shutdowns = Shutdowns(znodes, self.checked, lambda event: self.said.append(event.detail))
        self.shutdowns.journalled(Entry("broker-1", 1, 0, 0, ControllerElected(1, EPOCH, 1, 1, 1), 1))
        self.connection = self.shutdowns.connection(1)

    def asked(self, broker_epoch: int = BROKER_EPOCH) -> None:
        self.asking = request(ApiKey.CONTROLLED_SHUTDOWN, 3, broker_id=2, broker_epoch=broker_epoch)
        self.connection.received(encode_request(1, "broker-2", self.asking))

    def answers(self, error: ErrorCode = ErrorCode.none) -> None:
        response = respond(self.asking, error_code=int(error), remaining_partitions=[])
        self.connection.sent(ResponseEncoder().encode(1, response))

    def writes(self, before: LeaderAndIsr | None, after: LeaderAndIsr) -> None:
        self.shutdowns.changed(StateWritten(T0, before, after))


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        (state(1, (1, 2)), state(2, (1, 2)), "becomes leader"),
        (None, state(2, (2, 3)), "becomes leader"),
        (state(1, (1,)), state(1, (1, 2)), "joins the ISR"),
        (None, state(1, (1, 2)), "joins the ISR"),
        (state(2, (2, 3)), state(2, (2,)), ""),
        (state(1, (1, 2)), state(3, (2, 3)), ""),
        (state(1, (1,)), state(1, (1, 2), OTHER_EPOCH), ""),
    ],
)
def test_election_of_a_broker_in_shutdown_is_detected(
    before: LeaderAndIsr | None, after: LeaderAndIsr, fault: str
) -> None:
    controller = Controller()
    controller.asked()
    controller.answers()
    controller.writes(before, after)
    assert controller.said == ([f"t-0: broker 2 is shutting down, and {fault}"] if fault else [])
    assert controller.checked.counts == ({NAME: 1} if after.controller_epoch == EPOCH else {})


def test_stopping_broker_cannot_rejoin_isr_after_leaders_moved() -> None:
    controller = Controller()
    controller.asked()
    controller.writes(state(1, (1,)), state(1, (1, 2)))
    assert controller.said == []
    controller.writes(state(2, (2, 3)), state(3, (3,)))
    controller.writes(state(1, (1,)), state(1, (1, 2)))
    assert len(controller.said) == 1


def test_shutdown_request_rejected_or_of_an_old_epoch_is_ignored() -> None:
    for broker_epoch, error in ((BROKER_EPOCH, ErrorCode.not_controller), (BROKER_EPOCH - 1, ErrorCode.none)):
        controller = Controller()
        controller.asked(broker_epoch)
        controller.answers(error)
        controller.writes(state(1, (1,)), state(1, (1, 2)))
        assert controller.said == []


def test_new_registration_of_a_broker_ends_its_shutdown() -> None:
    controller = Controller()
    controller.asked()
    controller.answers()
    controller.shutdowns.changed(Registered(2, True))
    controller.writes(state(1, (1,)), state(1, (1, 2)))
    assert controller.said == []
