"""Limits on the reply bytes that were sent to a client and that it has not read yet.

A request of twenty bytes can have a reply of a megabyte. A client that sends ten thousand such requests at once would
fill a server's memory, and all other clients would wait for those replies. So above a limit, a connection's replies
wait in its session's queue. When the client has read its replies, the client port passes an empty `Frames` message to
the service.
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
"""Limit on unread reply bytes. Further replies are held back; the reply that exceeds the limit can have any length."""
SETTLED_BYTES_MAX = 256 << 20
"""Limit on unread reply bytes for reads that must be replied to before a write of the same session is applied.

It allows a client to read hundreds of large znodes at once, with writes in between.
"""
MULTI_READ_BYTES_MAX = 16 << 20
"""Maximum size of the reply to a multiRead.

This project's client accepts no larger reply; Apache's client by default accepts only a sixteenth of it.
"""


def bytes_of(body: AnyResponse | None) -> int:
    """Return a lower bound for the size of a reply, computed from its fields that can be large."""
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
