"""What came of a transaction that was applied: for whoever asked for it, and for watches."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import ACL, EventType, OpCode, Stat
from zabka.ensemble.tree.znode import Znode
from zabka.ensemble.txn import ErrorTxn, SubTxn

_OK = int(ErrorCode.OK)
Foreseen = tuple[int, int, bytes, int, bytes]
"""Of a plain write, before it is applied: the node's seed, digest and counters, and where it is created its parent's
digest and counters."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """What a transaction did to one znode, for watches; the parent's fields are None where no child came or went."""

    event: EventType
    path: str
    acl: Sequence[ACL]
    owner: int
    parent: str | None
    parent_acl: Sequence[ACL] | None


class Applied(msgspec.Struct):
    """A transaction's outcome (ProcessTxnResult): `type` is ERROR for what failed; `results` are those of a multi.

    `node` is the znode as it now is, `stat` its Stat where the transaction goes on and may change it again: in a multi.
    """

    type: int
    error: int
    path: str
    node: Znode | None = None
    stat: Stat | None = None
    results: list[Applied] | None = None

    def final_stat(self) -> Stat:
        """The Stat to answer with."""
        if self.stat is not None:
            return self.stat
        assert self.node is not None, f"no znode for the answer to op {self.type}"
        return self.node.stat()


def failed_multi(subs: list[SubTxn], failed_at: int) -> Applied:
    """A multi of which nothing is applied: 0 for what was rolled back, then the error, then what was never tried."""
    results = [Applied(OpCode.ERROR, _OK, "") for _ in subs[:failed_at]]
    for sub in subs[failed_at:]:
        body = sub.body()
        assert isinstance(body, ErrorTxn), f"{body!r} after the failed operation of a multi"
        results.append(Applied(OpCode.ERROR, body.err, ""))
    return Applied(OpCode.MULTI, results[failed_at].error, "", results=results)
