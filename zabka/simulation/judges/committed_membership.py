"""Whose disks must hold a transaction before anybody may apply it: the memberships that the history itself has written.

No peer is asked.  A reconfiguration is a transaction of /zookeeper/config; what comes behind it needs a majority of its
voters, and it needs a majority of the voters before it as well as of its own (Shraer et al., Dynamic Reconfiguration of
Primary/Backup Clusters, 2012; ReconfigCommand's joint quorum).  Simulated ensembles have neither weights nor groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zabka.ensemble.ids import Zxid, zxid_text
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.simulation.judges.rules import DurableState


def voters_of(text: str) -> tuple[int, ...]:
    """The voting servers that a membership's text names, lowest first: `server.N=host:port:port:role;...` a line."""
    voters = []
    for line in text.splitlines():
        key, _, value = line.partition("=")
        kind, _, number = key.partition(".")
        assert kind in ("server", "version"), f"a membership with {key} is not judged"
        if kind == "server" and ":observer" not in value:
            voters.append(int(number))
    return tuple(sorted(voters))


class CommittedMembership:
    """The voters as of the last transaction that anybody has applied."""

    def __init__(self, voters: Iterable[int]) -> None:
        self.voters = tuple(sorted(voters))

    def without_quorum(self, txn: Txn, disks: Mapping[int, DurableState]) -> str | None:
        """What is wrong with applying `txn` now, or None; it is the next that is applied of all."""
        memberships = [self.voters]
        if txn.type == OpCode.RECONFIG and isinstance(txn.body, SetDataTxn):
            memberships.append(voters_of((txn.body.data or b"").decode()))
        self.voters = memberships[-1]
        for voters in memberships:
            holders = [peer for peer in voters if peer in disks and disks[peer].holds(Zxid(txn.zxid))]
            if 2 * len(holders) <= len(voters):
                return f"quorum: {zxid_text(Zxid(txn.zxid))} committed and durable only on {holders} of {list(voters)}"
        return None
