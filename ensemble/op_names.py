"""Names and contents of the frames of ZooKeeper's client protocol, for display in message lists."""

from __future__ import annotations

from functools import cache

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import zxid_text
from zabka.ensemble.records import (
    NOTIFICATION_XID,
    PING_XID,
    ConnectRequest,
    ConnectResponse,
    EventType,
    MultiRequest,
    OpCode,
    Reply,
    Request,
    WatcherEvent,
)
from zabka.journal.messages import ANSWER, Content, Subject, listed

_SESSION_OPS = (
    OpCode.CLOSE_SESSION,
    OpCode.CREATE_SESSION,
    OpCode.SET_WATCHES,
    OpCode.SET_WATCHES2,
    OpCode.AUTH,
    OpCode.SASL,
)


@cache
def op_name(op: int) -> str:
    """Return ZooKeeper's name of an operation, such as `getData`."""
    if op not in OpCode._value2member_map_:
        return f"operation {op}"
    first, *others = OpCode(op).name.lower().split("_")
    return first + "".join(word.capitalize() for word in others)


def _class_of(op: int) -> str:
    if op == OpCode.PING:
        return "ping"
    return "session" if op in _SESSION_OPS else "client"


def connect_content(request: ConnectRequest) -> Content:
    """Return the content of a client's first frame: the session that it resumes (0x0 for a new session)."""
    found = {"session": session_text(request.session_id), "timeout_ms": request.timeout_ms}
    return Content("session", "connect", found)


def connected_content(response: ConnectResponse) -> Content:
    """Return the content of a server's first frame; a timeout of 0 means that the session does not exist."""
    found = {"session": session_text(response.session_id), "timeout_ms": response.timeout_ms}
    return Content("session", f"connect{ANSWER}", found)


def request_content(request: Request) -> Content:
    """Return the content of a request, that is of any client frame after the first."""
    return Content(_class_of(request.op), op_name(request.op), _request_subject(request))


def _request_subject(request: Request) -> Subject:
    found: Subject = {"xid": request.xid}
    body = request.body
    if isinstance(body, MultiRequest):
        return found | listed([f"{op_name(op)} {getattr(each, 'path', '')}".strip() for op, each in body.ops])
    for name in ("path", "version"):
        if (value := getattr(body, name, None)) is not None:
            found[name] = value
    if getattr(body, "watch", False):
        found["watch"] = True
    return found


def reply_content(reply: Reply, op: int | None) -> Content:
    """Return the content of a reply, that is of any server frame after the first.

    `op` is the op code of the request, or None if unknown.
    """
    if reply.xid == NOTIFICATION_XID:
        return _watch_content(reply)
    if reply.xid == PING_XID:
        return Content("ping", f"ping{ANSWER}", {})
    found: Subject = {"xid": reply.xid, "zxid": zxid_text(reply.zxid)}
    if reply.err:
        found["error"] = error_name(reply.err)
    if op is None:
        return Content("client", f"request{ANSWER}", found)
    return Content(_class_of(op), f"{op_name(op)}{ANSWER}", found)


def _watch_content(reply: Reply) -> Content:
    event = reply.body
    if not isinstance(event, WatcherEvent):
        return Content("client", "watch", {})
    kind = EventType(event.type).name if event.type in EventType._value2member_map_ else str(event.type)
    return Content("client", "watch", {"event": kind, "path": event.path})


def error_name(err: int) -> str:
    """Return ZooKeeper's name of an error code."""
    return ErrorCode(err).name if err in ErrorCode._value2member_map_ else str(err)


def session_text(session_id: int) -> str:
    """Return a session id as ZooKeeper prints it."""
    return f"0x{session_id & 0xFFFFFFFFFFFFFFFF:x}"
