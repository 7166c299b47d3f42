"""The guarantees of one ZooKeeper session: its own writes are visible, reads never go back, watch events come first.

Plain reads are not linearizable and need not be, because a server may lag. The guarantee is FIFO order per client (Hunt
et al. 2010, section 2.3): a session sees its own writes, never an older state after a newer one, and the event of a
watch before the change it is about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple


class Seen(NamedTuple):
    """One result that a session received, in order of arrival.

    - `wrote`: its own create or set took effect at `zxid`.
    - `read`: it read the node in the state that transaction `zxid` left.
    - `watched`: the same, for a read that also set a data watch.
    - `event`: a watch of the node fired; the event has no zxid.
    """

    session: str
    kind: Literal["wrote", "read", "watched", "event"]
    key: str
    zxid: int = 0


class _Known(NamedTuple):
    """A session's knowledge of a node: the newest transaction seen, and the one at which its watch was set."""

    newest: int = 0
    watched_at: int | None = None


def violations(history: Iterable[Seen]) -> list[str]:
    """Return the violations of a session's guarantees, one line each."""
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
