"""Checks the leaders and ISRs that a controller chooses while a broker shuts down.

A broker in a controlled shutdown requests that the controller moves its leaderships (ControlledShutdown).  When that
controller has begun to move them, it must not make the broker a leader or an ISR member until the broker registers
again (KafkaController.doControlledShutdown, KIP-841).  Other controllers have no information about the shutdown.

The check does not use the controller's memory.  It reads the request and the response from the frames on the
controller's connections.  The controller has begun when it moves a leadership away from the broker, and at the latest
when it sends the response.  The checked writes are committed transactions, which contain the controller epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct

from kio.schema.errors import ErrorCode

from zabka.journal import events as e
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, InvariantViolated
from zabka.kafka.wire.frames import DecodedRequest, decode_request, decode_response, response_correlation_id
from zabka.kafka.wire.kafka_schema import ApiKey
from zabka.simulation.checkers.kafka_znodes import Change, KafkaZnodes, Registered, StateWritten
from zabka.simulation.engine.observed import FrameReader

NAME = "LeavingBrokersStayOut"
_REQUEST = Struct(">h")


class Shutdowns:
    """Checks all controlled shutdowns of one simulated world."""

    watches = (e.ControllerElected,)
    """Types of events that `journalled` processes."""

    def __init__(self, znodes: KafkaZnodes, checked: CheckCounts, emit: Callable[[InvariantViolated], object]) -> None:
        self._znodes = znodes
        self._checked = checked
        self._emit = emit
        self._epochs: dict[int, int] = {}
        """Last controller epoch of each broker that was ever elected controller."""
        self._asked: dict[int, int] = {}
        """For each broker that has requested a shutdown, the epoch of the controller that has read the request."""
        self._leaving: dict[int, dict[int, None]] = {}
        """For each broker that is shutting down, the epochs of the controllers that know this."""

    # -- events ------------------------------------------------------------------------------------------------------

    def journalled(self, entry: Entry) -> None:
        """Process a journal entry."""
        event = entry.event
        if isinstance(event, e.ControllerElected):
            self._epochs[event.broker_id] = event.controller_epoch

    def changed(self, change: Change) -> None:
        """Process a change of Kafka's znodes."""
        if isinstance(change, Registered):
            self._asked.pop(change.broker, None)
            self._leaving.pop(change.broker, None)
        elif isinstance(change, StateWritten):
            self._check(change)
            moved_from = -1 if change.before is None else change.before.leader
            epoch = change.after.controller_epoch
            if moved_from != change.after.leader and self._asked.get(moved_from) == epoch:
                self._leaving.setdefault(moved_from, {})[epoch] = None

    def connection(self, broker: int) -> ShutdownConnection:
        """Return an observer for a new connection to that broker."""
        return ShutdownConnection(self, broker)

    def asked(self, controller: int, broker: int, broker_epoch: int) -> None:
        """Record a shutdown request that a controller has read. Ignore a request from an earlier registration of the
        broker.
        """
        epoch = self._epochs.get(controller)
        if epoch is not None and self._znodes.brokers.get(broker) == broker_epoch:
            self._asked[broker] = epoch

    def answered(self, broker: int, broker_epoch: int, error: int) -> None:
        """Record the controller's response to a shutdown request."""
        epoch = self._asked.pop(broker, None)
        if epoch is not None and error == ErrorCode.none and self._znodes.brokers.get(broker) == broker_epoch:
            self._leaving.setdefault(broker, {})[epoch] = None

    # -- checks ------------------------------------------------------------------------------------------------------

    def _check(self, write: StateWritten) -> None:
        before, after = write.before, write.after
        for broker, epochs in self._leaving.items():
            if after.controller_epoch not in epochs:
                continue
            self._checked.note(NAME)
            if after.leader == broker and (before is None or before.leader != broker):
                self._violated(write, f"broker {broker} is shutting down, and becomes leader")
            elif broker in after.isr and (before is None or broker not in before.isr):
                self._violated(write, f"broker {broker} is shutting down, and joins the ISR")

    def _violated(self, write: StateWritten, detail: str) -> None:
        self._emit(InvariantViolated(NAME, f"{write.partition}: {detail}"))


class ShutdownConnection:
    """Observes one connection to a broker that may be the controller."""

    def __init__(self, shutdowns: Shutdowns, controller: int) -> None:
        self._shutdowns = shutdowns
        self._controller = controller
        self._requests, self._responses = FrameReader(), FrameReader()
        self._asked: deque[DecodedRequest] = deque()
        """Shutdown requests that have no response yet."""

    def received(self, data: bytes) -> None:
        """Record the shutdown requests in bytes that the broker received."""
        for frame in self._requests.read(data):
            if _REQUEST.unpack_from(frame)[0] == ApiKey.CONTROLLED_SHUTDOWN:
                request = decode_request(frame)
                self._asked.append(request)
                self._shutdowns.asked(
                    self._controller, int(request.payload.broker_id), int(request.payload.broker_epoch)
                )

    def sent(self, data: bytes) -> None:
        """Find responses to shutdown requests in `data`, which the broker sent, and record them."""
        for frame in self._responses.read(data):
            if self._asked and self._asked[0].correlation_id == response_correlation_id(frame):
                asked = self._asked.popleft().payload
                response = decode_response(frame, asked)
                self._shutdowns.answered(int(asked.broker_id), int(asked.broker_epoch), int(response.error_code))
