"""Checks that coordinators of groups and transactions do not reply before they have read their log.

The leader of a partition of `__consumer_offsets` or `__transaction_state` coordinates the groups or transactional ids
that hash to it.  Until it has read the partition to the end, it must reject requests for them
(COORDINATOR_LOAD_IN_PROGRESS; GroupMetadataManager, TransactionStateManager).  Otherwise it would reply without the
offsets, members and transactions that its predecessor has stored.

The checker reads requests and responses from their frames.  The journal shows when the broker became leader, and the
file system shows which bytes of the segment files have been read since then.  A log counts as read when each byte that
it had when the broker became leader has been read, for any purpose.  A response may have been prepared before it was
sent, so the broker must have been a coordinator with a read log at some moment between the request and the response.

While Kafka loads the log, it replies to Heartbeat without an error, and to SyncGroup with REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from struct import Struct
from typing import Any, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.store import java_hash
from zabka.journal import events as e
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, InvariantViolated, TopicPartition
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.topic_names import TRANSACTION_STATE
from zabka.kafka.wire.frames import decode_request, decode_response, response_correlation_id
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of
from zabka.simulation.checkers.kafka_znodes import KafkaZnodes
from zabka.simulation.engine.observed import FrameReader
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.filesystem.inode import FileNode, Node

NAME = "coordinators answer after they have read their log"

GROUP_REQUESTS = frozenset(
    {
        ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)  # fmt: skip
TRANSACTION_REQUESTS = frozenset(
    {
        ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN,
        ApiKey.DESCRIBE_TRANSACTIONS,
    }
)  # fmt: skip
ROWS = {
    ApiKey.OFFSET_FETCH: ("groups", "group_id"),
    ApiKey.DESCRIBE_GROUPS: ("groups", "group_id"),
    ApiKey.DELETE_GROUPS: ("results", "group_id"),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("results_by_transaction", "transactional_id"),
    ApiKey.DESCRIBE_TRANSACTIONS: ("transaction_states", "transactional_id"),
}
"""Responses that can have one row per group or transactional id: the field with the rows, and a row's key field."""
_TRANSACTION_KEYS = ("transactional_id", "v3_and_below_transactional_id")
_ERRORS = ("error_code", "partition_error_code")
ANSWERS = frozenset(
    {
        ErrorCode.none, ErrorCode.illegal_generation, ErrorCode.inconsistent_group_protocol,
        ErrorCode.unknown_member_id, ErrorCode.rebalance_in_progress, ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state, ErrorCode.invalid_producer_id_mapping, ErrorCode.concurrent_transactions,
        ErrorCode.non_empty_group, ErrorCode.group_id_not_found, ErrorCode.member_id_required,
        ErrorCode.fenced_instance_id, ErrorCode.unstable_offset_commit, ErrorCode.producer_fenced,
        ErrorCode.transactional_id_not_found,
    }
)  # fmt: skip
"""Error codes that depend on the state of a group or transactional id."""
WITHOUT_STATE = {
    ApiKey.HEARTBEAT: ErrorCode.none,
    ApiKey.SYNC_GROUP: ErrorCode.rebalance_in_progress,
}
"""Error codes of ANSWERS that a coordinator can return even while it loads its log."""
_TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE)
_REQUEST = Struct(">h")


class SegmentFile(Protocol):
    """Interface of one segment file."""

    @property
    def node(self) -> FileNode: ...
    def size(self) -> int: ...


class CoordinatorMachine(Protocol):
    """A machine with a broker on it."""

    @property
    def name(self) -> str: ...
    def files(self, partition: str, /) -> Mapping[str, SegmentFile]: ...


class Ranges:
    """Ranges of bytes of one file that have not been read yet."""

    def __init__(self, size: int) -> None:
        self.left = [(0, size)] if size else []

    def read(self, start: int, stop: int) -> None:
        """Mark the bytes from `start` up to `stop` (exclusive) as read."""
        self.left = [
            part
            for begin, end in self.left
            for part in ((begin, min(end, start)), (max(begin, stop), end))
            if part[0] < part[1]
        ]


class _Term:
    """A period during which a broker is the leader of a partition."""

    def __init__(self, unread: dict[Node, Ranges]) -> None:
        self.unread = unread
        self.ended_us: int | None = None

    def is_over_at(self, time_us: int) -> bool:
        return self.ended_us is not None and self.ended_us < time_us


class _Asked(NamedTuple):
    """A coordinator request, and the time at which the broker read it."""

    correlation_id: int
    payload: KafkaMessage
    at_us: int


class LoadedCoordinators:
    """Checks all coordinators of one simulated world."""

    watches = (e.NodeStarted, e.LeadershipTaken, e.FollowershipTaken)
    """Types of events that `journalled` processes."""

    def __init__(
        self,
        scheduler: Scheduler,
        machines: Mapping[int, CoordinatorMachine],
        znodes: KafkaZnodes,
        checked: CheckCounts,
        emit: Callable[[InvariantViolated], object],
    ) -> None:
        self._scheduler = scheduler
        self._machines = machines
        self._znodes = znodes
        self._checked = checked
        self._emit = emit
        self._terms: dict[tuple[int, TopicPartition], _Term] = {}
        self._unread: dict[Node, Ranges] = {}
        """Files in all terms that have not been completely read yet, with their unread ranges."""

    @property
    def now_us(self) -> int:
        """Return the virtual time in microseconds."""
        return self._scheduler.now_us

    # -- terms -------------------------------------------------------------------------------------------------------

    def journalled(self, entry: Entry) -> None:
        """Process a journal entry."""
        event = entry.event
        if isinstance(event, e.NodeStarted):
            for broker, name in list(self._terms):
                if self._machines[broker].name == entry.node:
                    self._end(broker, name)
        elif isinstance(event, e.LeadershipTaken | e.FollowershipTaken) and event.topic in _TOPICS:
            name = TopicPartition(event.topic, event.partition)
            if isinstance(event, e.FollowershipTaken):
                self._end(event.broker_id, name)
            else:
                self._begin(event.broker_id, name)

    def _begin(self, broker: int, name: TopicPartition) -> None:
        term = self._terms.get((broker, name))
        if term is not None and term.ended_us is None:
            # The coordinator remains leader in the next leader epoch, and keeps the state that it has loaded.
            return
        files = self._machines[broker].files(str(name)).values()
        unread: dict[Node, Ranges] = {each.node: Ranges(each.size()) for each in files if each.size()}
        self._unread.update(unread)
        self._terms[broker, name] = _Term(unread)

    def _end(self, broker: int, name: TopicPartition) -> None:
        term = self._terms.get((broker, name))
        if term is not None and term.ended_us is None:
            term.ended_us = self.now_us
            for node in term.unread:
                self._unread.pop(node, None)

    def was_read(self, node: Node, start: int, size: int) -> None:
        """Process a read of a file by any process."""
        ranges = self._unread.get(node)
        if ranges is not None:
            ranges.read(start, start + size)

    def _is_read(self, broker: int, name: TopicPartition, term: _Term) -> bool:
        """Return whether the log was read. Ignore files that compaction or retention has replaced since then."""
        present = {each.node for each in self._machines[broker].files(str(name)).values()} if term.unread else ()
        for node, ranges in list(term.unread.items()):
            if not ranges.left or node not in present:
                del term.unread[node]
                self._unread.pop(node, None)
        return not term.unread

    # -- answers -----------------------------------------------------------------------------------------------------

    def connection(self, broker: int) -> CoordinatorConnection:
        """Return an observer for a new connection to that broker."""
        return CoordinatorConnection(self, broker)

    def check(self, broker: int, asked: _Asked, response: KafkaMessage) -> None:
        """Check that the broker replies as coordinator only if it leads the partition and has read its log."""
        api_key = ApiKey(api_key_of(asked.payload))
        topic = CONSUMER_OFFSETS if api_key in GROUP_REQUESTS else TRANSACTION_STATE
        for key, row in answered_rows(api_key, asked.payload, response):
            given = next((each for each in errors_in(row) if each in ANSWERS), None)
            if given is None:
                continue
            self._checked.note(NAME)
            name = self._partition(topic, key)
            term = None if name is None else self._terms.get((broker, name))
            if name is None or term is None or term.is_over_at(asked.at_us):
                self._violated(broker, api_key, key, given, f"it does not lead {name or topic}")
            elif given is not WITHOUT_STATE.get(api_key) and not self._is_read(broker, name, term):
                self._violated(broker, api_key, key, given, f"it leads {name} and has not read its log")

    def _partition(self, topic: str, key: str) -> TopicPartition | None:
        assignment = self._znodes.topics.get(topic)
        return None if assignment is None else TopicPartition(topic, java_hash(key) % len(assignment.partitions))

    def _violated(self, broker: int, api_key: ApiKey, key: str, given: ErrorCode, why: str) -> None:
        detail = f"broker {broker} answers {api_key.name} for {key} with {given.name}, and {why}"
        self._emit(InvariantViolated(NAME, detail))


class CoordinatorConnection:
    """Observes one connection to a broker."""

    def __init__(self, coordinators: LoadedCoordinators, broker: int) -> None:
        self._coordinators = coordinators
        self._broker = broker
        self._requests, self._responses = FrameReader(), FrameReader()
        self._asked: deque[_Asked] = deque()
        """Coordinator requests that have no response yet. Responses are sent in the order of the requests."""

    def received(self, data: bytes) -> None:
        """Record the coordinator requests in bytes that the broker received."""
        for frame in self._requests.read(data):
            if _REQUEST.unpack_from(frame)[0] in GROUP_REQUESTS | TRANSACTION_REQUESTS:
                request = decode_request(frame)
                self._asked.append(_Asked(request.correlation_id, request.payload, self._coordinators.now_us))

    def sent(self, data: bytes) -> None:
        """Check the responses in bytes that the broker sent."""
        for frame in self._responses.read(data):
            if self._asked and self._asked[0].correlation_id == response_correlation_id(frame):
                asked = self._asked.popleft()
                self._coordinators.check(self._broker, asked, decode_response(frame, asked.payload))


def answered_rows(api_key: ApiKey, request: KafkaMessage, response: KafkaMessage) -> Iterator[tuple[str, Any]]:
    """Yield each group or transactional id of a request, with the part of the response that is about this group or
    id.
    """
    rows, key = ROWS.get(api_key, ("", ""))
    if rows and hasattr(response, rows):
        yield from ((getattr(row, key), row) for row in getattr(response, rows))
        return
    keys = _TRANSACTION_KEYS if api_key in TRANSACTION_REQUESTS else ("group_id",)
    asked = next((value for each in keys if (value := getattr(request, each, None)) is not None), None)
    if asked is not None:
        yield asked, response


def errors_in(row: Any) -> Iterator[ErrorCode]:
    """Yield all error codes in a part of a response."""
    for field in fields(row):
        value = getattr(row, field.name)
        if field.name in _ERRORS:
            yield value
        elif isinstance(value, tuple):
            for each in value:
                if is_dataclass(each):
                    yield from errors_in(each)
