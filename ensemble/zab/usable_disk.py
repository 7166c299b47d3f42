"""Why a peer must not run on what its disk holds."""

from __future__ import annotations

from zabka.ensemble.ids import epoch_of
from zabka.ensemble.zab.effects import Recovered
from zabka.ensemble.zab.sync import follows


def why_unusable(recovered: Recovered) -> str | None:
    """In words for its log; None where it may."""
    if recovered.accepted_epoch < recovered.current_epoch:
        return (
            f"acceptedEpoch {recovered.accepted_epoch} is less than currentEpoch {recovered.current_epoch}: "
            "this data directory is damaged or mixed up"
        )
    last = recovered.snapshot.zxid if recovered.snapshot is not None else 0
    for txn in recovered.txns:
        if not follows(last, txn.zxid):
            return f"transaction 0x{txn.zxid:x} follows 0x{last:x} in the log: transactions in between are missing"
        last = txn.zxid
    # The last zxid may well be of a higher epoch than currentEpoch: a crash between a synchronisation's history and its
    # epoch.  Such a peer counted for nothing in that epoch, and does not claim it now.
    if epoch_of(last) > recovered.accepted_epoch:
        return f"the log reaches epoch {epoch_of(last)}, but acceptedEpoch is {recovered.accepted_epoch}"
    return None
