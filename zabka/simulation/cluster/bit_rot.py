"""Damage to synced data: a flipped bit in a log or a snapshot of a peer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zabka.ensemble.txnlog.files import LOG_PREFIX, SNAPSHOT_PREFIX, zxid_of
from zabka.simulation.filesystem.inode import BLOCK_BYTES
from zabka.simulation.filesystem.volume import Volume

NEWEST = 2
"""Number of files of each kind (log, snapshot) that can be damaged: the newest, because a server reads them soonest."""


def flip_bit_of_history(volume: Volume, which: Callable[[int], int], where: Callable[[int], int]) -> bool:
    """Flip a bit in one of the newest logs or snapshots of a peer.  Return False if there is no such file.

    `which` selects the file and `where` the bit: each returns a random number below its argument.
    """
    prefix = (LOG_PREFIX, LOG_PREFIX, SNAPSHOT_PREFIX)[which(3)]
    files = [(path, node) for path, node in volume.files() if Path(path).name.startswith(f"{prefix}.")]
    files = sorted(files, key=lambda each: zxid_of(Path(each[0]), prefix) or 0)[-NEWEST:]
    if not files:
        return False
    path, node = files[which(len(files))]
    used = (max(node.platter) + 1) * BLOCK_BYTES if node.platter else 0
    if not used:
        return False
    written = max(1, len(b"".join(node.platter[number] for number in sorted(node.platter)).rstrip(b"\0")))
    volume.rot(Path(path), where(8 * min(used, written)))
    return True
