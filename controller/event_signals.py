"""Converts watch notifications, timers and requests to events in the controller's queue, with Kafka's event names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode as KafkaError

from zabka.controller.broker_changes import process_broker_change, process_broker_modifications
from zabka.controller.config import EVENTS_QUEUED_MAX
from zabka.controller.events import ControllerEvent, EventQueue, Process
from zabka.controller.leader_elections import (
    elect_preferred_from_znode,
    process_auto_rebalance,
    process_topic_unclean,
    process_unclean_default,
)
from zabka.controller.log_dir_failures import process_log_dir_events
from zabka.controller.notifications import process_isr_notifications
from zabka.controller.reassignments import process_zk_reassignment
from zabka.controller.term import ControllerTerm
from zabka.controller.topic_changes import (
    process_partition_modifications,
    process_topic_change,
    process_topic_deletion,
)
from zabka.ensemble.client.service import Watcher, WatchEvent
from zabka.ensemble.errors import SessionExpired
from zabka.ensemble.ports import Runtime
from zabka.ensemble.records import EventType
from zabka.journal.cause import UNKNOWN, Cause, request_cause, transaction_cause
from zabka.kafka.zk.coordination import ControllerMoved

R = TypeVar("R")
Asked = Callable[[], Cause]

_WHEN_ACTIVE: dict[str, Callable[[ControllerTerm, str], Awaitable[object]]] = {
    "BrokerChange": process_broker_change,
    "BrokerModifications": process_broker_modifications,
    "TopicChange": process_topic_change,
    "PartitionModifications": process_partition_modifications,
    "TopicDeletion": process_topic_deletion,
    "LogDirEventNotification": process_log_dir_events,
    "IsrChangeNotification": process_isr_notifications,
    "ZkPartitionReassignment": process_zk_reassignment,
    "ReplicaLeaderElection": elect_preferred_from_znode,
    "AutoPreferredReplicaLeaderElection": process_auto_rebalance,
    "UncleanLeaderElectionEnable": process_unclean_default,
    "TopicUncleanLeaderElectionEnable": process_topic_unclean,
}
"""Handlers of events that only the active controller processes, keyed by Kafka's event names."""

_IGNORED = frozenset({("ZkPartitionReassignment", EventType.DATA_CHANGED)})
"""Watch events to ignore. The list of reassignments is processed when it is created, not when the controller shortens
it.
"""


class EventSignals:
    """Puts events into the queue of a broker's controller. Implements `Signals` for the controller terms.

    `term` returns the active controller term, or None if this broker is not the controller. `otherwise` contains the
    handlers of events that a candidate also processes, keyed by event name.
    """

    def __init__(
        self,
        runtime: Runtime,
        events: EventQueue,
        term: Callable[[], ControllerTerm | None],
        otherwise: Mapping[str, Callable[[], Awaitable[None]]],
    ) -> None:
        self._runtime = runtime
        self._events = events
        self._term = term
        self._otherwise = otherwise
        self._watchers: dict[tuple[str, str], Watcher] = {}

    def watcher(self, event: str, argument: str = "") -> Watcher:
        """Return a watcher that queues this event.

        Equal arguments return the same object, so that the watch is set only once.
        """
        key = (event, argument)
        if key not in self._watchers:

            def fired(seen: WatchEvent) -> None:
                if seen.type is not EventType.NONE and (event, seen.type) not in _IGNORED:
                    cause = transaction_cause(seen.zxid)
                    self._events.put(ControllerEvent(event, self._process(event, argument, seen), cause))

            self._watchers[key] = fired
        return self._watchers[key]

    def forget_watcher(self, event: str, argument: str) -> None:
        """Drop the watcher for an argument that will not be used again."""
        self._watchers.pop((event, argument), None)

    def put(self, event: str, argument: str, caused_by: Cause) -> None:
        """Queue an event with this name."""
        self._events.put(ControllerEvent(event, self._process(event, argument), caused_by))

    def _process(self, event: str, argument: str, seen: WatchEvent | None = None) -> Process:
        if event not in _WHEN_ACTIVE:
            return self._otherwise[event]
        handler = _WHEN_ACTIVE[event]

        async def process_when_active() -> None:
            term = self._term()
            if term is not None:
                if seen is not None and term.causes.cause == UNKNOWN:
                    term.causes.cause = await _last_write(term, seen)
                await handler(term, argument)

        return process_when_active

    def put_for(
        self, term: ControllerTerm, event: str, process: Callable[[], Awaitable[None]], caused_by: Cause
    ) -> None:
        """Queue an event that is processed only if this controller term has not ended by then."""

        async def process_in_term() -> None:
            if self._term() is term:
                await process()

        self._events.put(ControllerEvent(event, process_in_term, caused_by))

    def request(
        self,
        name: str,
        process: Callable[[ControllerTerm], Awaitable[R]],
        refuse: Callable[[KafkaError], R],
        inactive: KafkaError,
        asked: Asked | None = None,
        afterwards: Callable[[ControllerTerm, R], Awaitable[None]] | None = None,
    ) -> Awaitable[R]:
        """Queue a request as an event.

        A response is sent whatever happens to the event, and before `afterwards` runs. If `asked` is given and this
        broker is the controller, the administrator's request is journalled.
        """
        answer = self._runtime.future()

        def reply(response: Any) -> None:
            if not answer.done():
                answer.set_result(response)

        async def run() -> None:
            term = self._term()
            if term is None:
                reply(refuse(inactive))
                return
            try:
                response = await process(term)
                reply(response)
                if afterwards is not None:
                    await afterwards(term, response)
            except (ControllerMoved, SessionExpired):
                reply(refuse(inactive))
                raise
            except Exception:
                reply(refuse(KafkaError.unknown_server_error))
                raise

        if not self._events.running or len(self._events) >= EVENTS_QUEUED_MAX:
            reply(refuse(inactive))
        else:
            caused_by = asked() if asked is not None and self._term() is not None else request_cause(name)
            self._events.put(ControllerEvent(name, run, caused_by, preempt=lambda: reply(refuse(inactive))))
        return answer


async def _last_write(term: ControllerTerm, seen: WatchEvent) -> Cause:
    """Return the last transaction on the znode of a watch event that contains no zxid.

    The transaction is unknown if the znode was deleted. Servers send events without a zxid after a reconnection
    (SetWatches), and servers before 3.9 always do. The handler of the event then reads a state that includes this
    transaction.
    """
    stat = await term.zk.call(lambda: term.zk.service.exists(seen.path))
    if stat is None:
        return UNKNOWN
    return transaction_cause(stat.pzxid if seen.type is EventType.CHILDREN_CHANGED else stat.mzxid)
