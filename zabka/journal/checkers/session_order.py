"""Guarantees of one ZooKeeper session: it sees its own writes, reads never go back, watch events come first.

Plain reads are not linearizable and need not be, because a server may lag. The guarantee is FIFO order per client (Hunt
et al. 2010, section 2.3). A session sees its own writes and never an older state after a newer one, and it receives a
watch event before it sees the change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple


class Seen(NamedTuple):
    """One result that a session received. A session's results are kept in order of arrival.

    - `wrote`: its own create or set took effect at `zxid`.
    - `read`: it read the znode in the state after transaction `zxid`.
    - `watched`: like `read`, but the read also set a data watch.
    - `event`: a watch of the znode fired; the event has no zxid.
    """

    session: str
    kind: Literal["wrote", "read", "watched", "event"]
    key: str
    zxid: int = 0


class _Known(NamedTuple):
    """What a session knows about a znode: the newest transaction seen, and the newest when its watch was set."""

    newest: int = 0
    watched_at: int | None = None


def violations(history: Iterable[Seen]) -> list[str]:
    """Return the violations of the guarantees in a session's history, one line each."""
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
