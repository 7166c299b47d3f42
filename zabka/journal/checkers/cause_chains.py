"""Invariant: the chain of causes of every decision leads back to a fault, a request, a timer or a start.

Each cause must be earlier than its effect. The checker needs the whole history at the journal's full level, because one
node may log an effect before another node logs the cause. Each cause must also match its effect: it must be about the
same session, partition or epoch. The data in a decision's event must agree with the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from zabka.journal.cause import DECISION, LINK, REQUESTS, SILENCE, TIMERS, election_cause
from zabka.journal.causes import Causes, Chain, End
from zabka.journal.checkers.invariants import Violation
from zabka.journal.events import (
    BrokerRegistered,
    ControllerElected,
    ControllerResigned,
    Entry,
    Event,
    FollowershipTaken,
    GroupChanged,
    IsrChanged,
    IsrProposed,
    LeaderElected,
    LeaderEstablished,
    LogTruncated,
    MarkerWritten,
    RecordsLost,
    SessionClosed,
    SessionExpired,
    TopicPartition,
    TransactionChanged,
    TxnCommitted,
    type_name,
)

NAME = "every decision has a beginning"
CHECKED = (
    SessionClosed, ControllerElected, ControllerResigned, LeaderElected, LeaderEstablished, IsrChanged, LogTruncated,
    RecordsLost, TransactionChanged, MarkerWritten, GroupChanged,
)  # fmt: skip
"""Event types of decisions, whose chains of causes are checked."""


def broken_chains(entries: Sequence[Entry]) -> list[Violation]:
    """Return a violation for each decision whose chain of causes is invalid.

    A chain is invalid if its end is not a valid first cause, if a cause does not match its effect, or if a cause is
    later than its effect.
    """
    causes = Causes()
    committed: set[int] = set()
    elections: set[str] = set()
    for entry in entries:
        causes.see(entry)
        if isinstance(entry.event, TxnCommitted):
            committed.add(entry.event.zxid)
        elif isinstance(entry.event, LeaderElected):
            of = TopicPartition(entry.event.topic, entry.event.partition)
            elections.add(election_cause(of, entry.event.leader_epoch))
    found: list[Violation] = []
    for entry in entries:
        if isinstance(entry.event, CHECKED):
            chain = causes.chain(entry)
            fault = _disagreement(entry.event) or _misfit(chain) or _late(chain, causes)
            if not fault and not _is_unlogged(chain, elections):
                fault = _end_fault(chain, committed)
            if fault:
                found.append(Violation(NAME, fault, entry.node, entry.node_seq, entry.mono_us))
    return found


def _is_unlogged(chain: Chain, elections: set[str]) -> bool:
    """Return whether the chain ends at an election that its controller could not log.

    The controller died before it received the reply to its write of the partition state.
    """
    last = chain.steps[-1].event
    names_election = isinstance(last, FollowershipTaken | TransactionChanged | GroupChanged) and chain.says.startswith(
        "election "
    )
    return names_election and chain.says not in elections


def _end_fault(chain: Chain, committed: set[int]) -> str:
    """Return an error message if the end of a chain is not a valid first cause, otherwise an empty string."""
    word, _, rest = chain.says.partition(" ")
    known = {
        "timer": rest in TIMERS,
        "request": rest in REQUESTS,
        "owner": True,
        LINK: True,
        SILENCE: True,
        "topic": True,
        DECISION: True,
        "start": True,
        "": chain.end is not End.UNKNOWN,
    }
    if word.startswith("0x"):
        named = int(word, 16)
        own = getattr(chain.steps[-1].event, "zxid", 0)
        good = named != own and (named in committed or not committed)
    else:
        good = known.get(word, False) and chain.end is not End.UNKNOWN
    if good:
        return ""
    return f"{_name(chain.steps[0])} leads to {_name(chain.steps[-1])}, which names {chain.says or 'nothing'!r}"


def _late(chain: Chain, causes: Causes) -> str:
    # Ignore registrations: a broker logs its own registration only when the reply arrives, and the controller may have
    # read the registration before that.
    steps = [step for step in chain.steps if not isinstance(step.event, BrokerRegistered)]
    for effect, cause in pairwise(steps):
        if causes.place(cause) >= causes.place(effect):
            return f"{_name(effect)} names {_name(cause)}, which is no earlier"
    return ""


def _misfit(chain: Chain) -> str:
    for effect, cause in pairwise(chain.steps):
        fits = _FITS.get(type(effect.event))
        if fits is not None and not fits(effect.event, cause.event):
            return f"{_name(effect)} names {_name(cause)}, which is about something else"
    return ""


def _same_partition(effect: Event, cause: Event) -> bool:
    return all(getattr(effect, name) == getattr(cause, name, None) for name in ("topic", "partition"))


def _closed_fits(effect: Event, cause: Event) -> bool:
    assert isinstance(effect, SessionClosed)
    return isinstance(cause, SessionExpired) and cause.session_id == effect.session_id


def _changed_fits(effect: Event, cause: Event) -> bool:
    assert isinstance(effect, IsrChanged)
    if not isinstance(cause, IsrProposed):
        return effect.cause == "controller" or (isinstance(cause, IsrChanged) and _same_partition(effect, cause))
    moved = {row.replica for row in cause.moved}
    return _same_partition(effect, cause) and sorted(cause.isr) == sorted(effect.isr) and set(effect.left) <= moved


def _followed_fits(effect: Event, cause: Event) -> bool:
    assert isinstance(effect, FollowershipTaken)
    return isinstance(cause, LeaderElected) and _same_partition(effect, cause) and cause.leader == effect.leader


def _truncated_fits(effect: Event, cause: Event) -> bool:
    assert isinstance(effect, LogTruncated)
    return (
        isinstance(cause, FollowershipTaken)
        and _same_partition(effect, cause)
        and cause.broker_id == effect.broker_id
        and cause.leader_epoch == effect.leader_epoch
    )


def _lost_fits(effect: Event, cause: Event) -> bool:
    assert isinstance(effect, RecordsLost)
    if effect.cause == "missing_at_start":
        return True
    return isinstance(cause, LogTruncated) and _same_partition(effect, cause) and cause.broker_id == effect.broker_id


_FITS: dict[type[Event], Callable[[Event, Event], bool]] = {
    SessionClosed: _closed_fits,
    IsrChanged: _changed_fits,
    FollowershipTaken: _followed_fits,
    LogTruncated: _truncated_fits,
    RecordsLost: _lost_fits,
}
"""For each type of effect, a function that returns whether a cause can have led to such an effect."""


def _disagreement(event: Event) -> str:
    """Return an error message if the data in a decision's event disagrees with the decision, otherwise ""."""
    if isinstance(event, LeaderElected) and event.candidates:
        elected = [replica for replica, word in event.candidates if word == "elected"]
        if [replica for replica, _ in event.candidates] != event.replicas or elected != [event.leader]:
            return f"of {event.replicas} broker {event.leader} was elected, and checked were {event.candidates}"
    if isinstance(event, RecordsLost) and (event.caused_by == "start") != (event.cause == "missing_at_start"):
        return f"records lost by {event.cause} name {event.caused_by!r}"
    if isinstance(event, SessionClosed) and event.caused_by.startswith("expiry "):
        session = event.session_id & (1 << 64) - 1
        return "" if event.caused_by == f"expiry 0x{session:x}" else f"session 0x{session:x} names {event.caused_by}"
    return ""


def _name(entry: Entry) -> str:
    return f"{type_name(entry.event)} ({entry.node}#{entry.node_seq})"
