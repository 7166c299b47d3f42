"""A znode as a sequential object: the possible results of create, set, delete, and a read after a quorum sync.

`step` is the step function for `zabka.journal.checkers.linearizability`. The state is None while the znode does not
exist, otherwise its data and version.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, NamedTuple

from zabka.journal.checkers.linearizability import Operation

ANY_VERSION = -1

State = tuple[bytes, int] | None


class Asked(NamedTuple):
    """A request on one znode. The operation `read` is a sync followed by getData, which is a quorum read."""

    verb: Literal["create", "set", "delete", "read"]
    data: bytes = b""
    version: int = ANY_VERSION


class Answered(NamedTuple):
    """Result of a request: ok, no_node, node_exists or bad_version. A read also has data and version."""

    outcome: Literal["ok", "no_node", "node_exists", "bad_version"]
    data: bytes = b""
    version: int = 0


UNKNOWN: None = None
"""Result of an operation whose outcome is unknown. `step` accepts every possible outcome for such an operation."""


def step(state: Hashable, operation: Operation) -> tuple[bool, Hashable]:
    """Return whether the operation can have this result in this state, and the state after the operation."""
    asked = operation.asked
    assert isinstance(asked, Asked)
    assert state is None or isinstance(state, tuple)
    answer, after = _carry_out(state, asked)
    if operation.answered is UNKNOWN:
        return True, after
    return answer == operation.answered, after


def _carry_out(state: State, asked: Asked) -> tuple[Answered, State]:
    if asked.verb == "create":
        if state is not None:
            return Answered("node_exists"), state
        return Answered("ok"), (asked.data, 0)
    if state is None:
        return Answered("no_node"), None
    data, version = state
    if asked.verb == "read":
        return Answered("ok", data, version), state
    if asked.version not in (ANY_VERSION, version):
        return Answered("bad_version"), state
    if asked.verb == "delete":
        return Answered("ok"), None
    return Answered("ok", b"", version + 1), (asked.data, version + 1)
