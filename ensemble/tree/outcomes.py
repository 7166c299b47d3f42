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
"""Precomputed values of a plain write: the znode's seed, digest and counters.

For a create, also the digest and counters of the parent.
"""


class Change(msgspec.Struct, frozen=True, gc=False):
    """Change of one znode by a transaction, for watches.

    The fields of the parent are None if the set of its children is unchanged.
    """

    event: EventType
    path: str
    acl: Sequence[ACL]
    owner: int
    parent: str | None
    parent_acl: Sequence[ACL] | None


class Applied(msgspec.Struct):
    """Outcome of a transaction (ProcessTxnResult): `type` is ERROR if it failed; `results` are a multi's outcomes.

    `node` is the current znode. `stat` is its Stat if the transaction may change it again later, in a multi.
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
    """Return the outcome of a failed multi: 0 for rolled back operations, then the error, then those never tried."""
    results = [Applied(OpCode.ERROR, _OK, "") for _ in subs[:failed_at]]
    for sub in subs[failed_at:]:
        body = sub.body()
        assert isinstance(body, ErrorTxn), f"{body!r} after the failed operation of a multi"
        results.append(Applied(OpCode.ERROR, body.err, ""))
    return Applied(OpCode.MULTI, results[failed_at].error, "", results=results)
