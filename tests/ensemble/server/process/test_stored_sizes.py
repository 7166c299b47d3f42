"""Log messages that a peer writes at startup if stored data exceeds jute.maxbuffer."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.ensemble.ids import Epoch, SessionId, Zxid
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.server.config.limits import Limits
from zabka.ensemble.server.process.peer_process import oversized_warning, readable_bytes
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.txn import CreateTxn, Txn
from zabka.ensemble.txnlog.snapshots import list_snapshots, read_snapshot, write_snapshot
from zabka.ensemble.zab.effects import Recovered


def made(size: int) -> Txn:
    """Return a transaction that creates /big with `size` bytes of data. Its record is 76 bytes longer."""
    body = CreateTxn("/big", bytes(size), OPEN_ACL, False, 1)
    return Txn(SessionId(1), 1, Zxid(0x100000001), 7, OpCode.CREATE, body)


def in_log(size: int) -> Recovered:
    return Recovered(Epoch(1), Epoch(1), None, [made(size)])


def in_snapshot(directory: Path, size: int) -> Recovered:
    tree = DataTree()
    tree.apply(made(size))
    write_snapshot(directory, tree.to_snapshot())
    return Recovered(Epoch(1), Epoch(1), read_snapshot(list_snapshots(directory)[0][1]), [])


@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        (Limits(), 2 * 0xFFFFF),
        (Limits(frame_bytes=4096), 8192),
        (Limits(frame_bytes=400), 400 + 1024),
        (Limits(frame_bytes=4096, extra_bytes=20_000), 24_096),
        (Limits(frame_bytes=4096, extra_bytes=1), 4096 + 1024),
    ],
)
def test_maximum_size_of_a_stored_record_equals_that_of_java(limits: Limits, allowed: int) -> None:
    """The limit for stored records is the same as in Java's BinaryInputArchive.

    It is jute.maxbuffer plus zookeeper.jute.maxbuffer.extrasize, which is at least 1,024.
    """
    assert readable_bytes(limits) == allowed


def test_stored_transaction_over_the_limit_is_reported() -> None:
    limits = Limits(frame_bytes=4096)
    assert oversized_warning(in_log(8192 - 76), limits) is None
    warning = oversized_warning(in_log(8192 - 75), limits)
    assert warning is not None
    assert warning.startswith(
        "the transaction 0x100000001 in the log has 8193 bytes, which is more than jute.maxbuffer="
    )


def test_stored_znode_over_the_limit_is_reported(tmp_path: Path) -> None:
    limits = Limits(frame_bytes=4096)
    (tmp_path / "fits").mkdir()
    assert oversized_warning(in_snapshot(tmp_path / "fits", 8192), limits) is None
    (tmp_path / "exceeds").mkdir()
    warning = oversized_warning(in_snapshot(tmp_path / "exceeds", 8193), limits)
    assert warning is not None and warning.startswith("/big has 8193 bytes, which is more than jute.maxbuffer=4096")
