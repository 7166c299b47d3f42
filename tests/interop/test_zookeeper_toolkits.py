"""ZooKeeper's tools read our logs and snapshots without errors."""

from __future__ import annotations

import queue
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.interop.real_zookeeper import classpath, needs_java
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import ACL, OPEN_ACL, OpCode
from zabka.ensemble.tree.blocks import BLOCK_ZNODES
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.txn import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    SubTxn,
    Txn,
)
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.log import LogWriter
from zabka.ensemble.txnlog.snapshot_writer import SnapshotWriter
from zabka.ensemble.txnlog.snapshots import write_snapshot

pytestmark = needs_java
SECRET = (ACL(31, "digest", "u:9uRPJQZZNTAwWHdrUHRcCw=="), ACL(1, "ip", "10.0.0.0/8"))
EPOCH = 3 << 32
BODIES = (
    (OpCode.CREATE_SESSION, CreateSessionTxn(30_000)),
    (OpCode.CREATE, CreateTxn("/plain", b"data", OPEN_ACL, False, 1)),
    (OpCode.CREATE2, CreateTxn("/plain/secret-ü", None, SECRET, False, 1)),
    (OpCode.CREATE, CreateTxn("/plain/ephemeral", b"", OPEN_ACL, True, 2)),
    (OpCode.CREATE_CONTAINER, CreateContainerTxn("/container", b"", OPEN_ACL, 2)),
    (OpCode.CREATE_TTL, CreateTTLTxn("/ttl", b"x", OPEN_ACL, 3, 60_000)),
    (OpCode.SET_DATA, SetDataTxn("/plain", b"y" * 70_000, 1)),
    (OpCode.SET_ACL, SetACLTxn("/ttl", SECRET, 1)),
    (OpCode.ERROR, ErrorTxn(int(ErrorCode.NO_NODE))),
    (
        OpCode.MULTI,
        MultiTxn(
            [
                SubTxn(OpCode.CHECK, CheckVersionTxn("/plain", 1).encode()),
                SubTxn(OpCode.CREATE, CreateTxn("/plain/one", b"1", OPEN_ACL, False, 3).encode()),
                SubTxn(OpCode.DELETE, DeleteTxn("/plain/one").encode()),
                SubTxn(OpCode.SET_DATA, SetDataTxn("/container", b"c", 1).encode()),
            ]
        ),
    ),
    (OpCode.MULTI, MultiTxn([SubTxn(OpCode.ERROR, ErrorTxn(error).encode()) for error in (-110, -2)])),
    (OpCode.DELETE, DeleteTxn("/plain/secret-ü")),
    (OpCode.DELETE_CONTAINER, DeleteTxn("/container")),
)


def history() -> tuple[DataTree, list[Txn]]:
    """Return a tree, and one transaction of every type.

    The last one closes a session. Another session stays open and has an ephemeral znode.
    """
    tree, txns = DataTree(), []
    closing = [(OpCode.CREATE_SESSION, CreateSessionTxn(4000), 8), (OpCode.CLOSE_SESSION, CloseSessionTxn([]), 8)]
    for at, (kind, body, session) in enumerate([*((kind, body, 7) for kind, body in BODIES), *closing], 1):
        txn = Txn(SessionId(session), at, Zxid(EPOCH + at), 1_700_000_000_000 + at, kind, body)
        tree.apply(txn)
        txns.append(Txn(txn.session_id, at, txn.zxid, txn.time_ms, kind, body, tree.digest))
    return tree, txns


def java(*arguments: str) -> str:
    done = subprocess.run(
        ["java", "-Dlog4j2.level=ERROR", "-cp", classpath(), *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_txn_log_toolkit_reads_every_transaction_type(tmp_path: Path) -> None:
    _, txns = history()
    writer = LogWriter(tmp_path, preallocate_bytes=1 << 20)
    writer.append(txns)
    writer.roll()
    out = java("org.apache.zookeeper.server.persistence.TxnLogToolkit", str(tmp_path / f"log.{txns[0].zxid:x}"))
    assert f"EOF reached after {len(txns)} txns" in out
    assert "CRC" not in out.replace("ZooKeeper Transactional Log File", "")
    for txn in txns:
        assert f"zxid 0x{txn.zxid:x}" in out
    kinds = "createSession create2 createContainer createTTL setACL multi error closeSession"
    for name in kinds.split():
        assert f" {name}" in out, name


def write_plainly(directory: Path, tree: DataTree) -> None:
    write_snapshot(directory, tree.to_snapshot())


def take_over(directory: Path, tree: DataTree) -> None:
    """Write two snapshots as a running peer does.

    The second reuses blocks of the first, and has one more ACL list.
    """
    posted: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def end(*outcome: object) -> None:
        posted.put(None)

    writer = SnapshotWriter(
        Directories(directory, directory), "", lambda call, *args: posted.put(partial(call, *args)), end, end, end
    )
    for number in (1, 2):
        assert writer.start_snapshot(tree.to_snapshot())
        writer.publish(number)
        while (callback := posted.get()) is not None:
            callback()
        if number == 1:
            for n in range(2 * BLOCK_ZNODES):
                body = CreateTxn(f"/n{n}", b"x", ((ACL(3, "ip", "10.0.0.1"),)), False, -1)
                tree.apply(Txn(SessionId(7), n, Zxid(tree.last_zxid + 1), 5, OpCode.CREATE, body))


@pytest.mark.parametrize("write", [write_plainly, take_over])
def test_snapshot_formatter_reads_sessions_acls_and_ttls(
    tmp_path: Path, write: Callable[[Path, DataTree], None]
) -> None:
    tree, _ = history()
    write(tmp_path, tree)
    out = java("org.apache.zookeeper.server.SnapshotFormatter", str(tmp_path / f"snapshot.{tree.last_zxid:x}"))
    assert "/plain/ephemeral" in out and "ephemeralOwner = 0x00000000000007" in out
    assert "0x00000000000007, 30000, 1" in out
    assert f"Last zxid: 0x{tree.last_zxid:x}" in out
    assert all(path in out for path in tree.nodes)
