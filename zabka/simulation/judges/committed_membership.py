"""The servers whose disks must hold a transaction before any peer applies it, by the memberships in the history itself.

No peer's opinion counts.  A reconfiguration is a transaction of /zookeeper/config.  It needs a majority of the
previous voters and a majority of its own voters; later transactions need a majority of the new voters (Shraer et
al., Dynamic Reconfiguration of Primary/Backup Clusters, 2012; ReconfigCommand's joint quorum).  Simulated ensembles
have neither weights nor groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zabka.ensemble.ids import Zxid, zxid_text
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.simulation.judges.rules import DurableState


def voters_of(text: str) -> tuple[int, ...]:
    """Return the voters in a membership's text, sorted; its lines are `server.N=host:port:port:role;...`."""
    voters = []
    for line in text.splitlines():
        key, _, value = line.partition("=")
        kind, _, number = key.partition(".")
        assert kind in ("server", "version"), f"a membership with {key} is not judged"
        if kind == "server" and ":observer" not in value:
            voters.append(int(number))
    return tuple(sorted(voters))


class CommittedMembership:
    """The voters as of the last transaction that any peer has applied."""

    def __init__(self, voters: Iterable[int]) -> None:
        self.voters = tuple(sorted(voters))

    def without_quorum(self, txn: Txn, disks: Mapping[int, DurableState]) -> str | None:
        """Return why `txn` must not be applied now, or None.  `txn` is the next transaction that the first peer
        applies."""
        memberships = [self.voters]
        if txn.type == OpCode.RECONFIG and isinstance(txn.body, SetDataTxn):
            memberships.append(voters_of((txn.body.data or b"").decode()))
        self.voters = memberships[-1]
        for voters in memberships:
            holders = [peer for peer in voters if peer in disks and disks[peer].holds(Zxid(txn.zxid))]
            if 2 * len(holders) <= len(voters):
                return f"quorum: {zxid_text(Zxid(txn.zxid))} committed and durable only on {holders} of {list(voters)}"
        return None
