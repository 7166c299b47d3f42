"""Every decision has a beginning: a fault, a request, a timer or a start, and each step towards it is an earlier event.

Judged over a whole history, since an effect may be told before another node's word on what led to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from journal.causes import Causes, Chain, End
from journal.events import (
    BrokerRegistered,
    ControllerElected,
    Entry,
    IsrChanged,
    LeaderElected,
    LogTruncated,
    RecordsLost,
    SessionClosed,
    type_name,
)
from journal.judges.invariants import Violation

NAME = "every decision has a beginning"
JUDGED = (SessionClosed, ControllerElected, LeaderElected, IsrChanged, LogTruncated, RecordsLost)
"""What somebody asks "why?" about."""


def broken_chains(entries: Sequence[Entry]) -> list[Violation]:
    """Every decision of a history whose chain of causes ends nowhere, or does not lead backwards."""
    causes = Causes()
    for entry in entries:
        causes.see(entry)
    found: list[Violation] = []
    for entry in entries:
        if isinstance(entry.event, JUDGED):
            fault = _fault_of(causes.chain(entry), causes)
            if fault:
                found.append(Violation(NAME, fault, entry.node, entry.node_seq, entry.mono_us))
    return found


def _fault_of(chain: Chain, causes: Causes) -> str:
    """What is wrong with a chain; empty where it is as it should be."""
    if chain.end is End.UNKNOWN:
        last = chain.steps[-1]
        return f"{_name(chain.steps[0])} leads to {_name(last)}, which names {chain.says or 'nothing'!r}"
    # A broker tells of its registration when it has the answer; the controller may have heard of it before.
    steps = [step for step in chain.steps if not isinstance(step.event, BrokerRegistered)]
    for effect, cause in pairwise(steps):
        if causes.place(cause) >= causes.place(effect):
            return f"{_name(effect)} names {_name(cause)}, which is no earlier"
    return ""


def _name(entry: Entry) -> str:
    return f"{type_name(entry.event)} ({entry.node}#{entry.node_seq})"
