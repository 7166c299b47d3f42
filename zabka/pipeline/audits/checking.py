"""Checks one history against every invariant, as `zabka simulate` does, but after the run.

The checkers are folds in one pass. The whole history is also kept in memory, because the checker of causes needs
complete chains, and because each violation is reported with its chain.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zabka.journal.causes import Causes
from zabka.journal.checkers.cause_chains import broken_chains
from zabka.journal.checkers.invariants import Violation, Watchdog, default_checkers
from zabka.journal.checkers.zab_invariants import zab_checkers
from zabka.journal.events import Entry, EphemeralCreated, TxnCommitted, type_name
from zabka.journal.sentences import Sentences

FULL = (TxnCommitted, EphemeralCreated)
"""Event types that occur only in journals of the full level."""


class Found(msgspec.Struct, frozen=True):
    """A violation, the event that shows it, and the chain of causes of that event, beginning with the event itself."""

    invariant: str
    detail: str
    node: str
    node_seq: int
    at_us: int
    chain: list[str]


class Verdict(msgspec.Struct, frozen=True):
    """Result of checking one history.

    `checked` is the number of checks of each invariant. A journal of the normal level lacks most events that the
    invariants of ZAB and of records need. `full` is False for such a journal. If an invariant has no checks, the
    history may violate it nevertheless.
    """

    events: int
    full: bool
    violations: list[Found]
    checked: dict[str, int]


def check_history(history: Iterable[Entry], sentences: Sentences) -> Verdict:
    """Check every invariant on the entries of a history, which must be in order."""
    watchdog = Watchdog([*default_checkers(), *zab_checkers()])
    entries: list[Entry] = []
    for entry in history:
        watchdog.see(entry)
        entries.append(entry)
    full = any(isinstance(entry.event, FULL) for entry in entries)
    found = [*watchdog.violations, *broken_chains(entries)]
    return Verdict(len(entries), full, _with_chains(found, entries, sentences), watchdog.checked())


def _with_chains(found: list[Violation], entries: list[Entry], sentences: Sentences) -> list[Found]:
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
