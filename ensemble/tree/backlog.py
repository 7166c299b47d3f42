"""How much a client may be told before it has taken what it was told.

A request of twenty bytes may be answered with a megabyte.  Whoever sends ten thousand of them in one go would fill a
server's memory, and everybody else would wait until all are answered.  So a connection's answers wait, in its session's
queue, where so much was told; who serves the connection says by empty `Frames` that the client has taken it.
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
"""The last of these answers may be as long as it is."""
SETTLED_BYTES_MAX = 256 << 20
"""So much is told where a write of the same session must not overtake what it asked to read before: a program that
reads hundreds of large znodes at once, and writes in between, gets by with it."""
MULTI_READ_BYTES_MAX = 16 << 20
"""Of one answer to several reads; our own client takes no longer one, Apache's only a sixteenth of that by itself."""


def bytes_of(body: AnyResponse | None) -> int:
    """At least so many bytes an answer has: what may be much is counted."""
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
