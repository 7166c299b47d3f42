"""A coordinator that replies before it has read its log is reported.

Rejections, and replies from before it became coordinator, are not reported.
"""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.simulation.checkers.test_kafka_rules import TOPIC
from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.txn import CreateTxn, Txn
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, Event, FollowershipTaken, LeadershipTaken, NodeStarted
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.frames import ResponseEncoder, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request, respond
from zabka.simulation.checkers.kafka_znodes import KafkaZnodes
from zabka.simulation.checkers.loaded_coordinators import NAME, LoadedCoordinators, Ranges, answered_rows, errors_in
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.filesystem.inode import FileNode

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
COMMIT = request(ApiKey.OFFSET_COMMIT, 8, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[])
HEARTBEAT = request(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m")
FETCH = request(ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": "g", "topics": None}])
END = request(ApiKey.END_TXN, 3, transactional_id="t", producer_id=1, producer_epoch=0, committed=True)
LOADING, NONE = int(ErrorCode.coordinator_load_in_progress), 0


class Segment:
    """Fake segment file of a log, with a size."""

    def __init__(self, size: int) -> None:
        self.node = FileNode(0.0)
        self._size = size

    def size(self) -> int:
        return self._size


class Broker:
    """Broker 1, which can lead or follow the only partition of each internal topic, with one client connection."""

    name = "broker-1"

    def __init__(self) -> None:
        self.said: list[str] = []
        self.checked = CheckCounts()
        self.scheduler = Scheduler()
        self.segments = {"0.log": Segment(100), "1.log": Segment(50)}
        znodes = KafkaZnodes()
        for zxid, topic in enumerate((OFFSETS, TRANSACTIONS), 1):
            body = CreateTxn(f"/brokers/topics/{topic}", TOPIC, OPEN_ACL, False, 1)
            list(znodes.committed(Txn(SessionId(1), 1, Zxid(zxid), 0, OpCode.CREATE, body)))
        self.checker = LoadedCoordinators(
            self.scheduler, {1: self}, znodes, self.checked, lambda event: self.said.append(event.detail)
        )
        self.connection = self.checker.connection(1)
        self._number = 0

    def files(self, partition: str, /) -> Any:
        return self.segments

    def happened(self, event: Event) -> None:
        self.checker.journalled(Entry(self.name, 1, 0, 0, event, 1))

    def leads(self, topic: str = OFFSETS, epoch: int = 1) -> None:
        self.happened(LeadershipTaken(1, topic, 0, epoch, 10, 10))

    def follows(self) -> None:
        self.happened(FollowershipTaken(1, OFFSETS, 0, 2, 2, 10))

    def reads(self, *names: str) -> None:
        for name in names:
            self.checker.was_read(self.segments[name].node, 0, self.segments[name].size())

    def asks(self, message: KafkaMessage) -> None:
        self._number += 1
        self.connection.received(encode_request(self._number, "c", message))

    def answers(self, message: KafkaMessage, **values: Any) -> None:
        response = respond(message, throttle_time=0, **values)
        self.connection.sent(ResponseEncoder().encode(self._number, response))

    def commits(self, error: int) -> None:
        self.asks(COMMIT)
        rows = [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": error}]}]
        self.answers(COMMIT, topics=rows)


def test_coordinator_must_read_its_whole_log_before_it_replies() -> None:
    broker = Broker()
    broker.leads()
    broker.commits(LOADING)
    broker.reads("0.log")
    broker.checker.was_read(broker.segments["1.log"].node, 0, 49)
    assert broker.said == []
    broker.commits(NONE)
    assert broker.said == [
        "broker 1 answers OFFSET_COMMIT for g with none, and it leads __consumer_offsets-0 and has not read its log"
    ]
    broker.said.clear()
    broker.reads("1.log")
    broker.commits(NONE)
    assert broker.said == []
    assert broker.checked.counts == {NAME: 2}


def test_broker_that_is_not_the_coordinator_must_reject_requests() -> None:
    broker = Broker()
    broker.commits(int(ErrorCode.not_coordinator))
    assert broker.said == []
    broker.commits(int(ErrorCode.illegal_generation))
    assert "it does not lead __consumer_offsets-0" in broker.said[0]


def test_reply_to_a_request_sent_before_a_resignation_is_allowed() -> None:
    broker = Broker()
    broker.leads()
    broker.reads("0.log", "1.log")
    broker.asks(HEARTBEAT)
    broker.scheduler.run_until(5)
    broker.follows()
    broker.scheduler.run_until(9)
    broker.answers(HEARTBEAT, error_code=NONE)
    assert broker.said == []
    broker.asks(HEARTBEAT)
    broker.answers(HEARTBEAT, error_code=NONE)
    assert len(broker.said) == 1


def test_restarted_coordinator_must_read_its_log_again() -> None:
    broker = Broker()
    broker.leads()
    broker.reads("0.log", "1.log")
    broker.leads(epoch=2)
    broker.commits(NONE)
    assert broker.said == []
    broker.scheduler.run_until(5)
    broker.happened(NodeStarted("broker", 1, {}))
    broker.leads(epoch=2)
    broker.commits(NONE)
    assert len(broker.said) == 1


def test_loading_coordinator_accepts_heartbeats() -> None:
    broker = Broker()
    broker.leads()
    broker.asks(HEARTBEAT)
    broker.answers(HEARTBEAT, error_code=NONE)
    assert broker.said == []
    broker.asks(HEARTBEAT)
    broker.answers(HEARTBEAT, error_code=int(ErrorCode.unknown_member_id))
    assert len(broker.said) == 1


def test_coordinator_need_not_read_deleted_segments() -> None:
    broker = Broker()
    broker.leads()
    del broker.segments["0.log"]
    broker.reads("1.log")
    broker.commits(NONE)
    assert broker.said == []


@pytest.mark.parametrize(("error", "found"), [(NONE, 1), (LOADING, 0)])
def test_transaction_coordinators_and_nested_errors_are_checked(error: int, found: int) -> None:
    broker = Broker()
    broker.leads(TRANSACTIONS)
    broker.asks(END)
    broker.answers(END, error_code=error)
    assert len(broker.said) == found
    broker = Broker()
    broker.leads()
    broker.asks(FETCH)
    broker.answers(FETCH, groups=[{"group_id": "g", "topics": [], "error_code": error}])
    assert len(broker.said) == found


def test_log_is_read_completely_if_every_part_was_read() -> None:
    ranges = Ranges(10)
    ranges.read(3, 5)
    ranges.read(8, 20)
    assert ranges.left == [(0, 3), (5, 8)]
    ranges.read(0, 6)
    ranges.read(6, 8)
    assert ranges.left == []


def test_errors_are_found_in_nested_response_fields() -> None:
    rows = [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": LOADING}]}]
    response = respond(COMMIT, throttle_time=0, topics=rows)
    assert list(errors_in(response)) == [ErrorCode.coordinator_load_in_progress]


def test_add_offsets_response_is_checked_by_transactional_id() -> None:
    asked = request(ApiKey.ADD_OFFSETS_TO_TXN, 3, transactional_id="t", producer_id=1, producer_epoch=0, group_id="g")
    assert [key for key, _ in answered_rows(ApiKey.ADD_OFFSETS_TO_TXN, asked, respond(asked))] == ["t"]


def test_txn_offset_commit_response_is_checked_by_group() -> None:
    fields = {"producer_id": 1, "producer_epoch": 0, "generation_id": -1, "member_id": "", "topics": []}
    asked = request(ApiKey.TXN_OFFSET_COMMIT, 3, transactional_id="t", group_id="g", **fields)
    assert [key for key, _ in answered_rows(ApiKey.TXN_OFFSET_COMMIT, asked, respond(asked))] == ["g"]
