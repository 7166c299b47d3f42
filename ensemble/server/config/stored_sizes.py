"""What is stored and could not be read there by Apache ZooKeeper, whose readers too obey jute.maxbuffer.

BinaryInputArchive.checkLength refuses a length above jute.maxbuffer and jute.maxbuffer.extrasize together, also in the
server's own log and snapshots: it does not start ("Unreasonable length").  Here such a server starts and says so.  What
is stored was acknowledged; each record has its checksum; and one long list of ephemerals, which the end of a session
writes, is beyond the limit without any znode or request being so: whoever can make ephemerals could keep every server
of an ensemble from starting again.
"""

from __future__ import annotations

from zabka.ensemble.ids import zxid_text
from zabka.ensemble.server.config.limits import Limits
from zabka.ensemble.tree.stored import StoredNodes
from zabka.ensemble.tree.znode import HEAD_BYTES
from zabka.ensemble.zab.effects import Recovered

EXTRA_BYTES_MIN = 1024


def readable_bytes(limits: Limits) -> int:
    """How long a stored value may be there: twice jute.maxbuffer, unless jute.maxbuffer.extrasize says otherwise."""
    extra = limits.frame_bytes if limits.extra_bytes is None else limits.extra_bytes
    return limits.frame_bytes + max(extra, EXTRA_BYTES_MIN)


def oversized_warning(recovered: Recovered, limits: Limits) -> str | None:
    """What to say of a log or snapshot that holds too much, by the first example; None where none does."""
    allowed = readable_bytes(limits)
    found = _in_snapshot(recovered, allowed) or _in_log(recovered, allowed)
    if found is None:
        return None
    return (
        f"{found}, which is more than jute.maxbuffer={limits.frame_bytes} allows (a stored value may have {allowed}): "
        "it is served all the same; Apache ZooKeeper would not start, nor clients with this limit read it"
    )


def _in_log(recovered: Recovered, allowed: int) -> str | None:
    for txn in recovered.txns:
        if (size := len(txn.raw or txn.encoded())) > allowed:
            return f"the transaction {zxid_text(txn.zxid)} in the log has {size} bytes"
    return None


def _in_snapshot(recovered: Recovered, allowed: int) -> str | None:
    nodes = recovered.snapshot.nodes if recovered.snapshot is not None else ()
    # What is kept of a znode is more than its data: mostly one look without a line of Python for each of a million.
    if isinstance(nodes, StoredNodes) and max(map(len, nodes.values), default=0) > allowed:
        for path, value in zip(nodes.paths, nodes.values, strict=True):
            if (size := len(value) - HEAD_BYTES) > allowed:
                return f"{path} has {size} bytes"
    return None
