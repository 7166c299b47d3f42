"""Znodes loaded from a snapshot have no digests until they change. Clients cannot see the difference."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.ensemble.txnlog.test_formats import node, some_snapshot
from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.records import ACL, OPEN_ACL, OpCode
from zabka.ensemble.tree.create_modes import CONTAINER_OWNER, ttl_owner
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.stored import AclTable, records_of
from zabka.ensemble.tree.znode import FLAGS_AT, UNSEALED
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import CreateTxn, DeleteTxn, SetDataTxn, Txn
from zabka.ensemble.txnlog.snapshot_format import DIGEST, TreeDecoder, encode_tree
from zabka.ensemble.txnlog.snapshots import read_snapshot, write_snapshot

SECRET = (ACL(31, "digest", "u:x"),)


def images() -> list[NodeImage]:
    return [
        node(""), node("/a", b"data"), node("/a/b", None, SECRET), node("/a/ü", b"x" * 300, owner=77),
        node("/c", b"", owner=CONTAINER_OWNER), node("/t", b"t", owner=ttl_owner(9000)), node("/zookeeper", b""),
        node("/zookeeper/config", b""), node("/zookeeper/quota", b""),
    ]  # fmt: skip


def loaded(digest: int = 0) -> tuple[DataTree, DataTree]:
    """Return the same snapshot twice: read from its bytes, and built from images."""
    snapshot = TreeSnapshot(Zxid(9), {SessionId(77): 4000}, images(), digest)
    eager = DataTree.from_snapshot(snapshot)
    decoder = TreeDecoder()
    decoder.feed(b"".join(encode_tree(snapshot)))
    return DataTree.from_snapshot(decoder.snapshot(9, digest)), eager


def test_tree_loaded_from_a_snapshot_equals_the_saved_tree() -> None:
    lazy, eager = loaded()
    assert (lazy.digest, lazy.data_size_bytes, lazy.ephemerals, lazy.ephemeral_count, lazy.lapsing) == (
        eager.digest, eager.data_size_bytes, eager.ephemerals, eager.ephemeral_count, eager.lapsing
    )  # fmt: skip
    assert list(lazy.to_snapshot().nodes) == list(eager.to_snapshot().nodes)
    for path in eager.nodes:
        assert lazy.stat(path) == eager.stat(path)
        assert lazy.children(path) == eager.children(path)


def test_snapshot_nodes_support_index_and_slice() -> None:
    decoder = TreeDecoder()
    decoder.feed(b"".join(encode_tree(TreeSnapshot(Zxid(9), {}, images(), 0))))
    nodes, whole = decoder.snapshot(9, 0).nodes, images()
    assert [nodes[n] for n in range(len(nodes))] == list(nodes) == whole
    assert (nodes[-1], nodes[1:3], nodes == whole, nodes == whole[1:]) == (whole[-1], whole[1:3], True, False)


def test_loaded_znodes_are_encoded_like_created_ones() -> None:
    written = []
    for tree in loaded(digest=12345):
        written.append(b"".join(records_of(tree.nodes.pairs(), tree.nodes.acls, AclTable())))
    assert written[0] == written[1]


def test_digest_of_a_loaded_znode_is_computed_when_it_changes() -> None:
    lazy, eager = loaded(digest=12345)
    assert all(node.value[FLAGS_AT] & UNSEALED for node in lazy.nodes.values())
    assert {path: node.digest for path, node in lazy.nodes.items()} == {
        path: node.digest for path, node in eager.nodes.items()
    }
    # The lazy tree starts with the digest in the snapshot, so compare only the changes of both digests.
    before = (lazy.digest - eager.digest) % 2**64
    for tree in (lazy, eager):
        for at, (kind, body) in enumerate(
            [
                (OpCode.SET_DATA, SetDataTxn("/a/ü", b"new", 1)),
                (OpCode.CREATE, CreateTxn("/a/b/c", b"", OPEN_ACL, False, 100)),
                (OpCode.DELETE, DeleteTxn("/t")),
            ]
        ):
            tree.apply(Txn(SessionId(1), at, Zxid(10 + at), 5, kind, body))
    assert (lazy.digest - eager.digest) % 2**64 == before
    assert list(lazy.to_snapshot().nodes) == list(eager.to_snapshot().nodes)
    assert not lazy.nodes["/a/ü"].value[FLAGS_AT] & UNSEALED and lazy.nodes["/c"].value[FLAGS_AT] & UNSEALED


def test_unchanged_loaded_znode_is_encoded_as_it_was_read() -> None:
    lazy, _ = loaded(digest=12345)
    raw = b"".join(encode_tree(lazy.to_snapshot()))
    decoder = TreeDecoder()
    decoder.feed(raw)
    assert {image.path: image for image in decoder.nodes} == {image.path: image for image in images()}
    assert b"".join(encode_tree(decoder.snapshot(9, 1))) == raw


def test_digest_of_a_fuzzy_snapshot_is_recomputed(tmp_path: Path) -> None:
    """ZooKeeper writes the digest after a tree that kept changing. The log is replayed from the zxid in the file
    name."""
    snapshot = TreeSnapshot(Zxid(9), {}, images(), 12345)
    write_snapshot(tmp_path, snapshot)
    path = tmp_path / "snapshot.9"
    assert read_snapshot(path).digest == 12345
    raw = path.read_bytes()
    path.rename(tmp_path / "snapshot.7")
    read = read_snapshot(tmp_path / "snapshot.7")
    assert (read.zxid, read.digest) == (7, 0)
    assert DataTree.from_snapshot(read).digest == DataTree.from_snapshot(snapshot).digest
    assert DIGEST.pack(9, 2, 12345) in raw


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param([node(""), node("/a/b")], id="a child without its parent"),
        pytest.param([node(""), node("//a")], id="a name behind two slashes"),
        pytest.param([node("/a")], id="no root"),
    ],
)
def test_tree_with_a_missing_parent_is_rejected(tree: list[NodeImage]) -> None:
    decoder = TreeDecoder()
    with pytest.raises((ValueError, MalformedRecord)):
        decoder.feed(b"".join(encode_tree(TreeSnapshot(Zxid(1), {}, tree, 0))))
        DataTree.from_snapshot(decoder.snapshot(1, 0))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"\0\0\0\2/a", b"\0\0\0\2xa", id="no slash"),
        pytest.param(b"\0\0\0\2/a", b"\0\0\0\2/\xff", id="no text"),
        pytest.param(b"\0\0\0\2/a", b"\xff\xff\xff\xfe/a", id="a negative length"),
        pytest.param(b"\0\0\0\4data", b"\xff\xff\xff\xf0data", id="a negative length of data"),
        pytest.param(b"\0\0\0\4data", b"\x7f\xff\xff\xffdata", id="endless data"),
        pytest.param(b"data" + struct.pack(">q", -1), b"data" + struct.pack(">q", 5), id="an unknown ACL"),
    ],
)
def test_invalid_znode_records_are_malformed(old: bytes, new: bytes) -> None:
    raw = b"".join(encode_tree(TreeSnapshot(Zxid(1), {}, images()[:2], 0)))
    assert raw.count(old) == 1
    with pytest.raises(MalformedRecord):
        TreeDecoder().feed(raw.replace(old, new))


def test_large_tree_is_decoded_from_chunks_of_any_size() -> None:
    raw = b"".join(encode_tree(some_snapshot()))
    for step in (7, 64, 1001):
        decoder = TreeDecoder()
        for at in range(0, len(raw), step):
            decoder.feed(raw[at : at + step])
        assert decoder.done and list(decoder.nodes) == some_snapshot().nodes
