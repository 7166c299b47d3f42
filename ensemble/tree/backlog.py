"""Limits of reply bytes that a client has not read yet.

A request of twenty bytes may be answered with a megabyte. A client that sends ten thousand of them at once would fill a
server's memory, and all other clients would wait until they are answered. So above a limit, a connection's replies wait
in its session's queue. The connection's server passes empty `Frames` when the client has read them.
"""

from __future__ import annotations

from zabka.ensemble.records import (
    AnyResponse,
    GetACLResponse,
    GetChildren2Response,
    GetChildrenResponse,
    GetDataResponse,
    GetEphemeralsResponse,
    MultiResponse,
    WhoAmIResponse,
)

ANSWERS_BYTES_MAX = 1 << 20
"""The last of these replies may have any length."""
SETTLED_BYTES_MAX = 256 << 20
"""Limit while a write of the session must not overtake its earlier reads.

It allows a program that reads hundreds of large znodes at once, with writes in between.
"""
MULTI_READ_BYTES_MAX = 16 << 20
"""Limit of one reply to several reads; our own client accepts no longer one, Apache's by default only a sixteenth."""


def bytes_of(body: AnyResponse | None) -> int:
    """Return a lower bound of a reply's size: the parts that may be large."""
    match body:
        case GetDataResponse():
            return len(body.data or b"")
        case GetChildrenResponse() | GetChildren2Response():
            return sum(map(len, body.children))
        case GetEphemeralsResponse():
            return sum(map(len, body.ephemerals))
        case GetACLResponse():
            return sum(len(entry.scheme) + len(entry.id) for entry in body.acl)
        case WhoAmIResponse():
            return sum(len(info.user) for info in body.client_info)
        case MultiResponse():
            return sum(bytes_of(result.body) for result in body.results)
    return 0
