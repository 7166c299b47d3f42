"""What one ZooKeeper session may rely on: its own writes, reads that never go back, watches that come first.

Plain reads are not linearizable, and need not be: a server may lag.  What holds is FIFO order per client (Hunt et al.
2010, section 2.3): a session sees its own writes, never an older state after a newer one, and the event of a watch
before the change it is about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple


class Seen(NamedTuple):
    """One thing that a session was told, in the order in which it was told.

    `wrote`: its own create or set took effect at `zxid`.  `read`: the node stood as transaction `zxid` had left it.
    `watched`: a read that also left a data watch.  `event`: a watch of the node fired; it tells no zxid.
    """

    session: str
    kind: Literal["wrote", "read", "watched", "event"]
    key: str
    zxid: int = 0


class _Known(NamedTuple):
    """What a session knows of a node: the newest transaction it saw there, and the one its armed watch was left at."""

    newest: int = 0
    watched_at: int | None = None


def violations(history: Iterable[Seen]) -> list[str]:
    """What contradicts a session's guarantees, a line each; empty where all held."""
    known: dict[tuple[str, str], _Known] = {}
    found = []
    for seen in history:
        subject = (seen.session, seen.key)
        before = known.get(subject, _Known())
        if seen.kind == "event":
            known[subject] = before._replace(watched_at=None)
            continue
        if seen.zxid < before.newest:
            found.append(f"{seen.session} {seen.kind} {seen.key} at 0x{seen.zxid:x} after it knew 0x{before.newest:x}")
        is_read = seen.kind != "wrote"
        if is_read and before.watched_at is not None and seen.zxid > before.watched_at:
            found.append(f"{seen.session} {seen.kind} {seen.key} at 0x{seen.zxid:x} before its watch told of a change")
        leaves = seen.kind == "watched" and before.watched_at is None
        known[subject] = _Known(max(before.newest, seen.zxid), seen.zxid if leaves else before.watched_at)
    return found
