"""The chain of causes of an event, from the event (the effect) back to its first cause.

No cause is guessed: each step follows the reference that an event contains (`caused_by`). A chain ends at a fault, a
request, a timer or a start. It ends as unknown if a node did not know the cause, or if the journal with the cause is
missing. If a timer detected a silent node, the chain continues with the cause of the silence, if the journals show that
cause clearly (`silences`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, TypeGuard

from zabka.journal.cause import (
    DECISION,
    LINK,
    LOOKING,
    PRODUCER,
    SILENCE,
    START,
    UNKNOWN,
    Cause,
    election_cause,
    event_cause,
    expiry_cause,
    fault_cause,
    proposal_cause,
    registration_cause,
    topic_cause,
    transaction_cause,
)
from zabka.journal.event import TopicPartition
from zabka.journal.events import (
    AdminRequested,
    BrokerRegistered,
    Entry,
    EphemeralCreated,
    Event,
    FaultInjected,
    HighWatermarkMoved,
    IsrProposed,
    LastStableOffsetHeld,
    LeaderElected,
    NodeStarted,
    NodeStopped,
    PeerStateChanged,
    ProcessChanged,
    SessionClosed,
    SessionExpired,
)
from zabka.journal.silences import Silences
from zabka.journal.transactions import REFERENCES, Transactions

STEPS_MAX = 64
"""Maximum length of a chain. No decision is further from its first cause, so a longer chain has a cycle."""


class End(StrEnum):
    """Kind of the root cause at the end of a chain of causes."""

    FAULT = "fault"
    REQUEST = "request"
    TIMER = "timer"
    START = "start"
    UNKNOWN = "unknown"


class Chain(NamedTuple):
    """Chain of events from an effect to its first cause, with the effect first.

    `says` is the last reference if no journal contains the event to which it refers, otherwise empty.
    """

    steps: tuple[Entry, ...]
    end: End
    says: str


_BROKERS = "/brokers/ids/"
_ROOTS: dict[type[Event], End] = {
    AdminRequested: End.REQUEST,
    FaultInjected: End.FAULT,
    ProcessChanged: End.FAULT,
    NodeStarted: End.START,
    NodeStopped: End.REQUEST,
    # The cause is a request: the Fetch request of the last follower, or the Produce request itself.
    HighWatermarkMoved: End.REQUEST,
}
_WORDS = {"timer": End.TIMER, "request": End.REQUEST, "start": End.START}
_UNLOGGED = {
    "fault": End.FAULT, "topic": End.REQUEST, "owner": End.REQUEST, LINK: End.FAULT, SILENCE: End.TIMER,
    PRODUCER: End.REQUEST, DECISION: End.REQUEST,
}  # fmt: skip
"""Kinds of first causes that no journal contains as an event, by the first word of the reference."""
_STOPS_PROCESS = frozenset({"crash", "power_loss"})
_DIGITS_MAX = 10
_LOGGED_LATE_US_MAX = 1_000_000
"""Maximum time by which a cause can be logged after its effect, if the history is merged by wall clocks.

The wall clocks of several machines differ.
"""


class Causes:
    """Finds the events to which the references in a history refer.

    Pass every entry of the history to `see`, in the order of the history.
    """

    def __init__(self) -> None:
        self._by_reference: dict[str, list[tuple[int, Entry]]] = {}
        self._session_of: dict[str, int] = {}
        self._registrations: dict[int, list[tuple[int, int]]] = {}
        self._closed: dict[int, Entry] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._linked: dict[str, list[int]] = {}
        self._silences = Silences()
        self._transactions = Transactions(self.place)

    def see(self, entry: Entry) -> None:
        """Add the next entry."""
        event = entry.event
        self._places[entry.node, entry.node_seq] = len(self._places)
        self._record(event_cause(entry.node, entry.node_seq), entry)
        zxid = getattr(event, "zxid", 0)
        if zxid and hasattr(event, "caused_by"):
            self._record(transaction_cause(zxid), entry)
        name = _NAMES.get(type(event))
        if name is not None and (reference := name(event)):
            self._record(reference, entry)
        self._see_links(entry)
        self._silences.see(entry)
        self._transactions.see(entry)
        if isinstance(event, NodeStarted):
            self._record(Cause(f"{START} {entry.node}"), entry)
        elif isinstance(event, BrokerRegistered):
            self._record(transaction_cause(event.broker_epoch), entry)
            self._registered(entry, event.broker_id, event.broker_epoch, event.session_id)
        elif isinstance(event, EphemeralCreated) and event.path.startswith(_BROKERS):
            # In a journal at the full level, this event of the ensemble shows the registration even if the broker died
            # before it logged the registration.
            number = event.path.removeprefix(_BROKERS)
            if number.isdecimal() and len(number) <= _DIGITS_MAX:
                self._registered(entry, int(number), event.zxid, event.session_id)
        elif isinstance(event, SessionClosed):
            self._closed.setdefault(event.session_id, entry)

    def _see_links(self, entry: Entry) -> None:
        """Record events that close a peer's connections, and events after which the peer may have reconnected."""
        event = entry.event
        if isinstance(event, PeerStateChanged) and event.state == LOOKING.upper():
            self._record(Cause(f"{LOOKING} {entry.node}"), entry)
            self._record(Cause(f"{LINK} {entry.node}"), entry)
        elif isinstance(event, PeerStateChanged | NodeStarted):
            self._linked.setdefault(entry.node, []).append(self.place(entry))
        elif isinstance(event, NodeStopped):
            self._record(Cause(f"{LINK} {entry.node}"), entry)
        elif _stops_process(event):
            self._record(Cause(f"{LINK} {event.target}"), entry)

    def _registered(self, entry: Entry, broker_id: int, broker_epoch: int, session_id: int) -> None:
        self._session_of[registration_cause(broker_id, broker_epoch)] = session_id
        self._registrations.setdefault(broker_id, []).append((self.place(entry), session_id))
        self._silences.owns(session_id, f"broker-{broker_id}")

    def _record(self, cause: Cause, entry: Entry) -> None:
        recorded = self._by_reference.setdefault(cause, [])
        # Several peers apply the same transaction, so keep only its first event. A leader epoch can recur after a topic
        # was recreated, so keep all its events; `find_cause` uses the last one before the effect.
        if not recorded or not cause.startswith("0x"):
            recorded.append((self._places[entry.node, entry.node_seq], entry))

    def find_cause(self, cause: str, effect: Entry) -> Entry | None:
        """Return the event to which the reference `cause` of the entry `effect` refers; None if no journal has it."""
        if cause.startswith("timer "):
            return self._silences.find_cause(effect) or self._transactions.producer_stopped(
                effect, self._place_of(effect)
            )
        word, _, rest = cause.partition(" ")
        if word in REFERENCES:
            return self._transactions.find_cause(cause, self._place_of(effect))
        match word:
            case "registration":
                return self._end_of_session(self._session_of.get(cause), effect)
            case "owner":
                return self._end_of_session(_signed(rest), effect)
            case "absence":
                if not rest.isdecimal() or len(rest) > _DIGITS_MAX:
                    return None
                place, broker_id = self._place_of(effect), int(rest)
                ended = [
                    closed
                    for at, session_id in self._registrations.get(broker_id, ())
                    if at < place and (closed := self._end_of_session(session_id, effect)) is not None
                ]
                return ended[-1] if ended else None
        recorded = self._by_reference.get(f"{START} {effect.node}" if cause == START else cause, [])
        place = self._place_of(effect)
        earlier = [entry for at, entry in recorded if at < place]
        if earlier and word == LINK and any(self.place(earlier[-1]) < at < place for at in self._linked.get(rest, ())):
            # The peer has reconnected after its connections ended, so the end of these connections is not the cause.
            # The cause may be a kill that the peer's host logged later.
            earlier = []
            recorded = [(at, entry) for at, entry in recorded if isinstance(entry.event, ProcessChanged)]
        if earlier:
            return earlier[-1]
        after = [entry for at, entry in recorded if at >= place]
        late = [entry for entry in after if entry.wall_us - effect.wall_us <= _LOGGED_LATE_US_MAX]
        return late[0] if late else None

    def _end_of_session(self, session_id: int | None, effect: Entry) -> Entry | None:
        closed = self._closed.get(session_id) if session_id is not None else None
        # If the session ended after the effect, a client deleted the znode, so the end of the session is not the cause.
        return closed if closed is not None and self._is_before(closed, effect) else None

    def _is_before(self, entry: Entry, effect: Entry) -> bool:
        return self.place(entry) < self._place_of(effect)

    def _place_of(self, effect: Entry) -> int:
        """Return the position of an effect in the history. An effect that was not passed to `see` comes last."""
        return self._places.get((effect.node, effect.node_seq), len(self._places))

    def place(self, entry: Entry) -> int:
        """Return an entry's position in the history."""
        return self._places[entry.node, entry.node_seq]

    def chain(self, entry: Entry) -> Chain:
        """Follow the references from an event back to the first cause."""
        steps = [entry]
        while len(steps) < STEPS_MAX:
            here = steps[-1].event
            root = _ROOTS.get(type(here))
            if root is not None:
                return Chain(tuple(steps), root, "")
            cause = getattr(here, "caused_by", UNKNOWN)
            found = self._left_open(steps) or self.find_cause(cause, steps[-1])
            if found is None or found is steps[-1]:
                return Chain(tuple(steps), _end_of(cause), cause)
            steps.append(found)
        return Chain(tuple(steps), End.UNKNOWN, "a circle")

    def _left_open(self, steps: list[Entry]) -> Entry | None:
        """If an open transaction holds back a last stable offset, return the event that kept the transaction open.

        `steps` is a causal chain. Its last step is the transaction's last change, and the step before it is the
        LastStableOffsetHeld event. The transaction stayed open after its last change, so the cause of that change is
        not the reason why it is open.
        """
        if len(steps) < 2 or not isinstance(steps[-2].event, LastStableOffsetHeld):
            return None
        return self._transactions.left_open_by(steps[-1], self._place_of(steps[-2]))


def _stops_process(event: Event) -> TypeGuard[ProcessChanged | FaultInjected]:
    if isinstance(event, ProcessChanged):
        return event.process == "down"
    return isinstance(event, FaultInjected) and event.kind in _STOPS_PROCESS


def _signed(session: str) -> int | None:
    try:
        number = int(session, 16)
    except ValueError:
        # In an uploaded journal, the session id may be invalid.
        return None
    return number - (1 << 64) if number >> 63 else number


def _end_of(cause: str) -> End:
    word = cause.partition(" ")[0]
    if cause.startswith("0x"):
        # A client's request causes a transaction. Only a journal at the full level contains that request.
        return End.REQUEST
    return _WORDS.get(word) or _UNLOGGED.get(word) or End.UNKNOWN


def _of_election(event: Event) -> Cause:
    assert isinstance(event, LeaderElected)
    return election_cause(TopicPartition(event.topic, event.partition), event.leader_epoch)


def _of_proposal(event: Event) -> Cause:
    assert isinstance(event, IsrProposed)
    return proposal_cause(TopicPartition(event.topic, event.partition), event.upon)


def _of_topic(event: Event) -> Cause:
    assert isinstance(event, AdminRequested)
    return topic_cause(event.subjects[-1]) if event.request == "CreateTopics" and event.subjects else UNKNOWN


def _of_expiry(event: Event) -> Cause:
    assert isinstance(event, SessionExpired)
    return expiry_cause(event.session_id)


def _of_fault(event: Event) -> Cause:
    assert isinstance(event, FaultInjected)
    return fault_cause(event.fault_id)


_NAMES: dict[type[Event], Callable[[Event], Cause]] = {
    FaultInjected: _of_fault,
    LeaderElected: _of_election,
    IsrProposed: _of_proposal,
    SessionExpired: _of_expiry,
    AdminRequested: _of_topic,
}
