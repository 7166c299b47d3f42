"""Outcome of an applied transaction, for the reply and for watches."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import ACL, EventType, OpCode, Stat
from zabka.ensemble.tree.znode import Znode
from zabka.ensemble.txn import ErrorTxn, SubTxn

_OK = int(ErrorCode.OK)
Foreseen = tuple[int, int, bytes, int, bytes]
"""Values that the leader has computed for a plain write: the znode's seed, digest and counters.

For a create, also the digest and counters of the parent.
"""


class Change(msgspec.Struct, frozen=True, gc=False):
    """Change of one znode by a transaction; determines which watches fire.

    The parent's fields are None if the set of the parent's children is unchanged.
    """

    event: EventType
    path: str
    acl: Sequence[ACL]
    owner: int
    parent: str | None
    parent_acl: Sequence[ACL] | None


class Applied(msgspec.Struct):
    """Outcome of an applied transaction (ProcessTxnResult). `type` is ERROR if the transaction failed.

    `results` are the outcomes of a multi's operations. `node` is the znode. If a later operation of the same multi may
    change the znode again, `stat` is a copy of the znode's Stat after this operation.
    """

    type: int
    error: int
    path: str
    node: Znode | None = None
    stat: Stat | None = None
    results: list[Applied] | None = None

    def final_stat(self) -> Stat:
        """Return the Stat of the znode for the reply to the client."""
        if self.stat is not None:
            return self.stat
        assert self.node is not None, f"no znode for the answer to op {self.type}"
        return self.node.stat()


def failed_multi(subs: list[SubTxn], failed_at: int) -> Applied:
    """Return the outcome of a failed multi.

    The error codes are: 0 for operations that were rolled back, the error of the failed operation, and a different
    error for operations that were never tried.
    """
    results = [Applied(OpCode.ERROR, _OK, "") for _ in subs[:failed_at]]
    for sub in subs[failed_at:]:
        body = sub.body()
        assert isinstance(body, ErrorTxn), f"{body!r} after the failed operation of a multi"
        results.append(Applied(OpCode.ERROR, body.err, ""))
    return Applied(OpCode.MULTI, results[failed_at].error, "", results=results)
