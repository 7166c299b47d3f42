"""Request faults for ZooKeeper: the operations, the paths in their requests, and the errors that each can return.

The errors are from ZooKeeper's documentation and from KeeperException.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.op_names import op_name
from zabka.ensemble.records import MultiRequest, OpCode, Request
from zabka.ensemble.request_fault import ANY, ZOOKEEPER_ERRORS, RequestFault, matches_text

_E = ErrorCode
_FAMILIES: dict[str, tuple[OpCode, ...]] = {
    "create": (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL),
    "getChildren": (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2),
    "setWatches": (OpCode.SET_WATCHES, OpCode.SET_WATCHES2),
}
"""Operations with several variants, of which a client chooses one. A rule for the first variant matches the others
too.
"""
_INTERNAL = (OpCode.NOTIFICATION, OpCode.CREATE_SESSION, OpCode.ERROR, OpCode.CHECK, OpCode.DELETE_CONTAINER)
"""Op codes that no client sends as a separate request."""
OPERATIONS: dict[str, tuple[int, ...]] = {
    op_name(op): tuple(map(int, _FAMILIES.get(op_name(op), (op,)))) for op in OpCode if op not in _INTERNAL
}
"""Op codes that a rule matches, keyed by the operation's name in the rule."""

_MADE_BY_CLIENTS = frozenset({_E.CONNECTION_LOSS, _E.OPERATION_TIMEOUT, _E.INVALID_CALLBACK, _E.API_ERROR})
_OF_EVERY_OPERATION = frozenset(
    {
        _E.SYSTEM_ERROR, _E.RUNTIME_INCONSISTENCY, _E.DATA_INCONSISTENCY, _E.MARSHALLING_ERROR, _E.UNIMPLEMENTED,
        _E.SESSION_EXPIRED, _E.SESSION_MOVED, _E.SESSION_CLOSED_REQUIRE_SASL, _E.AUTH_FAILED, _E.REQUEST_TIMEOUT,
        _E.THROTTLED,
    }
)  # fmt: skip
_WRITE = frozenset({_E.NOT_READ_ONLY, _E.NO_AUTH, _E.BAD_ARGUMENTS})
_READ = frozenset({_E.NO_NODE, _E.NO_AUTH})
_CREATE = _WRITE | {
    _E.NO_NODE, _E.NODE_EXISTS, _E.NO_CHILDREN_FOR_EPHEMERALS, _E.INVALID_ACL, _E.QUOTA_EXCEEDED,
    _E.EPHEMERAL_ON_LOCAL_SESSION,
}  # fmt: skip
_DELETE = _WRITE | {_E.NO_NODE, _E.BAD_VERSION, _E.NOT_EMPTY}
_SET_DATA = _WRITE | {_E.NO_NODE, _E.BAD_VERSION, _E.QUOTA_EXCEEDED}
_ERRORS: dict[str, frozenset[ErrorCode]] = {
    "create": _CREATE,
    "create2": _CREATE,
    "createContainer": _CREATE,
    "createTtl": _CREATE,
    "delete": _DELETE,
    "exists": _READ,
    "getData": _READ,
    "setData": _SET_DATA,
    "getAcl": _READ,
    "setAcl": _WRITE | {_E.NO_NODE, _E.BAD_VERSION, _E.INVALID_ACL},
    "getChildren": _READ,
    "getChildren2": _READ,
    "getAllChildrenNumber": _READ,
    "getEphemerals": frozenset(),
    "multi": _CREATE | _DELETE | _SET_DATA,
    "multiRead": _READ,
    "addWatch": _READ,
    "checkWatches": frozenset({_E.NO_WATCHER}),
    "removeWatches": frozenset({_E.NO_WATCHER}),
    "reconfig": _WRITE | {_E.BAD_VERSION, _E.NEW_CONFIG_NO_QUORUM, _E.RECONFIG_IN_PROGRESS, _E.RECONFIG_DISABLED},
}
_WITHOUT_PATH = frozenset({"ping", "auth", "sasl", "closeSession", "whoAmI", "reconfig", "setWatches", "setWatches2"})
_EFFECTS = {
    "throttle": "ZooKeeper's answers have no throttle time; use delay_before",
    "corrupt": "ZooKeeper's requests carry no record batches",
    "stale": "a peer keeps no earlier state of its tree; use delay_after",
    "drop_request": "ZooKeeper answers in order, so a connection cannot go on without one answer; use close or hang",
}


def why_impossible(rule: RequestFault) -> str | None:
    """Return why a rule for ZooKeeper requests is invalid, or None if it is valid."""
    if rule.opcode != ANY and rule.opcode not in OPERATIONS:
        return f"opcode: there is no operation {rule.opcode!r}; operations are {', '.join(sorted(OPERATIONS))}, or *"
    if rule.path and rule.opcode in _WITHOUT_PATH:
        return f"path: {rule.opcode} has no path"
    if rule.effect in _EFFECTS:
        return f"effect {rule.effect}: {_EFFECTS[rule.effect]}"
    if rule.keep_open:
        return "keep_open: ZooKeeper answers in order, so an answer is lost only with its connection"
    return _why_no_such_error(rule) if rule.error else None


def _why_no_such_error(rule: RequestFault) -> str | None:
    error = ZOOKEEPER_ERRORS.get(rule.error)
    if error is None:
        return f"error: ZooKeeper has no error {rule.error!r}; errors are {', '.join(ZOOKEEPER_ERRORS)}"
    if error in _MADE_BY_CLIENTS:
        return f"error: {rule.error} is made by the client, no server sends it; use the effect close"
    if rule.opcode in ("ping", "closeSession"):
        return f"error: a client ignores errors of {rule.opcode}; use close or hang"
    allowed = _OF_EVERY_OPERATION | _ERRORS.get(rule.opcode, frozenset())
    if error not in allowed:
        names = ", ".join(sorted(each.name for each in allowed))
        subject = "not every operation can" if rule.opcode == ANY else f"{rule.opcode} cannot"
        return f"error: {subject} return {rule.error}; use {names}"
    return None


class ZooKeeperSubject(NamedTuple):
    """The parts of a ZooKeeper request that rules are compared with: its op code and the paths in it."""

    op: int
    paths: tuple[str, ...]


def subject_of(request: Request) -> ZooKeeperSubject:
    """Return the parts of a request that rules are compared with."""
    body = request.body
    if isinstance(body, MultiRequest):
        paths = tuple(str(getattr(each.body, "path", "")) for each in body.ops)
    else:
        path = getattr(body, "path", None)
        paths = () if path is None else (str(path),)
    return ZooKeeperSubject(request.op, paths)


def matches(rule: RequestFault, subject: ZooKeeperSubject, principals: Iterable[str] = ()) -> bool:
    """Return whether a rule matches a request; for a multi, one matching path is enough.

    `principals` are the names of the identities that the connection has proved (`principal`).
    """
    if rule.principal and not any(matches_text(rule.principal, each) for each in principals):
        return False
    if rule.opcode == ANY:
        if subject.op == OpCode.PING:
            return False
    elif subject.op not in OPERATIONS.get(rule.opcode, ()):
        return False
    return not rule.path or any(matches_text(rule.path, path) for path in subject.paths)
