"""One history, judged by every invariant that there is: what `zabka simulate` does while a run goes on, afterwards.

The judges are folds of one pass.  Beside what they keep, the history itself is held once, for the judge of causes asks
about whole chains, and each violation is told with its own.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zabka.journal.causes import Causes
from zabka.journal.events import Entry, EphemeralCreated, TxnCommitted, type_name
from zabka.journal.judges.cause_chains import broken_chains
from zabka.journal.judges.invariants import Violation, Watchdog, default_checkers
from zabka.journal.judges.zab_invariants import zab_checkers
from zabka.journal.sentences import Sentences

FULL = (TxnCommitted, EphemeralCreated)
"""Types that only a journal of the full level has."""


class Found(msgspec.Struct, frozen=True):
    """A violation: where it shows, and what led to the event that shows it, the effect first."""

    invariant: str
    detail: str
    node: str
    node_seq: int
    at_us: int
    chain: list[str]


class Verdict(msgspec.Struct, frozen=True):
    """What came of one history.

    `judged` says how often each invariant had something to judge.  A journal of the normal level lacks most of what the
    invariants of ZAB and of records are about: then `full` is False, and an invariant that was not judged did not hold
    by that.
    """

    events: int
    full: bool
    violations: list[Found]
    judged: dict[str, int]


def judge(history: Iterable[Entry], sentences: Sentences) -> Verdict:
    """Judge a history in its order."""
    watchdog = Watchdog([*default_checkers(), *zab_checkers()])
    entries: list[Entry] = []
    for entry in history:
        watchdog.see(entry)
        entries.append(entry)
    full = any(isinstance(entry.event, FULL) for entry in entries)
    found = [*watchdog.violations, *broken_chains(entries)]
    return Verdict(len(entries), full, _told(found, entries, sentences), watchdog.judged())


def _told(found: list[Violation], entries: list[Entry], sentences: Sentences) -> list[Found]:
    if not found:
        return []
    causes = Causes()
    by_place = {}
    for entry in entries:
        causes.see(entry)
        by_place[entry.node, entry.node_seq] = entry
    return [
        Found(
            invariant=each.invariant,
            detail=each.detail,
            node=each.node,
            node_seq=each.node_seq,
            at_us=each.mono_us,
            chain=_chain(causes, by_place[each.node, each.node_seq], sentences),
        )
        for each in found
    ]


def _chain(causes: Causes, shows: Entry, sentences: Sentences) -> list[str]:
    chain = causes.chain(shows)
    steps = [
        f"{step.node}#{step.node_seq} {type_name(step.event)}: {sentences.sentence(step.node, step.event)}"
        for step in chain.steps
    ]
    return [*steps, f"begins with: {chain.end.value}" + (f" ({chain.says})" if chain.says else "")]
