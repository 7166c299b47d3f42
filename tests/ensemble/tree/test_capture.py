"""A snapshot is written block by block while the tree changes. It contains the tree as it was at the start."""

from __future__ import annotations

from zlib import adler32

from hypothesis import given
from hypothesis import strategies as st

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import Record
from zabka.ensemble.records import ACL, OPEN_ACL, OpCode
from zabka.ensemble.tree.blocks import ACLS_MAX, BLOCK_ZNODES
from zabka.ensemble.tree.capture import Capture, Piece
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.stored import LARGE_BYTES, AclTable
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import CreateTxn, DeleteTxn, SetACLTxn, SetDataTxn, Txn
from zabka.ensemble.txnlog.snapshot_format import TreeDecoder, encode_head, encode_tree

SECRETS = [(ACL(31, "digest", f"u:{n}"),) for n in range(3)]


class Known:
    """The blocks that the last snapshot's file contains."""

    def __init__(self) -> None:
        self.since = 0
        self.acls: dict[tuple[ACL, ...], int] | None = None
        self.blocks: dict[int, bytes] = {}


class World:
    """A tree, changes to it, and snapshots of it."""

    def __init__(self, tree: DataTree | None = None) -> None:
        self.tree = tree if tree is not None else DataTree()
        self.zxid = self.tree.last_zxid
        self.known = Known()

    def do(self, kind: OpCode, body: Record) -> None:
        self.zxid = Zxid(self.zxid + 1)
        self.tree.apply(Txn(SessionId(1), self.zxid, self.zxid, 1000 + self.zxid, kind, body))

    def create(self, path: str, data: bytes | None = b"", acl: tuple[ACL, ...] = OPEN_ACL) -> None:
        self.do(OpCode.CREATE, CreateTxn(path, data, acl, False, -1))

    def set(self, path: str, data: bytes) -> None:
        self.do(OpCode.SET_DATA, SetDataTxn(path, data, 1))

    def change(self, what: int, which: int) -> None:
        """Apply a random change to a random znode for which the change is valid."""
        paths = [path for path in self.tree.nodes if not path.startswith("/zookeeper")]
        path = paths[which % len(paths)]
        if what == 0:
            self.create(f"{path if path != '/' else ''}/{self.zxid:x}", None if which % 2 else b"new", OPEN_ACL)
        elif what == 1:
            self.create(f"/s{self.zxid:x}", b"", SECRETS[which % 3])
        elif what == 2:
            self.set(path, b"d" * which)
        elif what == 3:
            self.do(OpCode.SET_ACL, SetACLTxn(path, SECRETS[which % 3] if which % 2 else OPEN_ACL, 1))
        elif path != "/" and not self.tree.nodes[path].children:
            self.do(OpCode.DELETE, DeleteTxn(path))

    def images(self) -> dict[str, NodeImage]:
        return {path: node.image(path) for path, node in self.tree.nodes.items()}

    def begin(self) -> tuple[Capture, dict[int, Piece]]:
        came: dict[int, Piece] = {}

        def sink(piece: Piece) -> None:
            assert piece.number not in came
            came[piece.number] = piece

        nodes = self.tree.to_snapshot().nodes
        table = AclTable(self.known.acls)
        capture = nodes.capture(self.known.blocks, self.known.since, table, sink)  # type: ignore[attr-defined]
        self.known.since, self.known.acls = nodes.turn, dict(table.rows)  # type: ignore[attr-defined]
        return capture, came

    def finish(self, capture: Capture, came: dict[int, Piece]) -> TreeSnapshot:
        """Finish a capture, and return the snapshot that can be read from its file."""
        capture.step(10_000)
        blocks: dict[int, bytes] = {}
        for number in capture.order:
            if number in capture.pieces:
                piece = came.pop(number)
                blocks[number] = b"".join(piece.parts)
                assert (piece.size, piece.checksum) == (len(blocks[number]), adler32(blocks[number]))
            else:
                blocks[number] = self.known.blocks[number]
        assert not came
        self.known.blocks = blocks
        decoder = TreeDecoder()
        decoder.feed(bytes(encode_head({}, capture.table)) + b"".join(blocks.values()) + b"\0\0\0\1/")
        assert decoder.done and not decoder.rest
        return decoder.snapshot(1, 0)


CHANGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2000)), max_size=25)


@given(st.lists(st.tuples(CHANGES, CHANGES, st.integers(0, 3)), min_size=1, max_size=5), st.booleans())
def test_snapshot_contains_the_tree_at_its_start(
    rounds: list[tuple[list[tuple[int, int]], list[tuple[int, int]], int]], loaded: bool
) -> None:
    w = World()
    for n in range(2 * BLOCK_ZNODES):
        w.create(f"/n{n}", b"x", SECRETS[0] if n == 200 else OPEN_ACL)
    if loaded:
        decoder = TreeDecoder()
        decoder.feed(b"".join(encode_tree(w.tree.to_snapshot())))
        w = World(DataTree.from_snapshot(decoder.snapshot(w.zxid, w.tree.digest)))
    for before, during, steps in rounds:
        for what, which in before:
            w.change(what, which)
        then = w.images()
        capture, came = w.begin()
        for what, which in during:
            w.change(what, which)
            capture.step(steps)
        assert {image.path or "/": image for image in w.finish(capture, came).nodes} == then


def test_recreated_znode_precedes_its_children_in_a_snapshot() -> None:
    w = World()
    for path in ("/a", "/b"):
        w.create(path)
    w.do(OpCode.DELETE, DeleteTxn("/a"))
    for path in ("/c", "/c/d", "/a", "/a/e"):
        w.create(path)
    snapshot = w.finish(*w.begin())
    assert [image.path for image in snapshot.nodes if not image.path.startswith("/zookeeper")] == [
        "", "/b", "/c", "/c/d", "/a", "/a/e",
    ]  # fmt: skip
    DataTree.from_snapshot(snapshot)


def test_next_snapshot_encodes_only_blocks_that_changed() -> None:
    w = World()
    for n in range(5 * BLOCK_ZNODES):
        w.create(f"/n{n}")
    w.finish(*w.begin())
    capture, came = w.begin()
    assert not capture.pieces
    w.finish(capture, came)
    w.set("/n300", b"changed")
    w.do(OpCode.DELETE, DeleteTxn(f"/n{3 * BLOCK_ZNODES}"))
    block = w.tree.nodes["/n300"].block
    capture, came = w.begin()
    # Block 0 must be written too: it contains the root, which changed because its child was deleted.
    assert capture.pieces == {0, block, 3}
    w.finish(capture, came)


def test_change_during_a_snapshot_is_in_the_next_snapshot() -> None:
    w = World()
    for n in range(2 * BLOCK_ZNODES):
        w.create(f"/n{n}")
    capture, came = w.begin()
    w.set("/n0", b"changed")
    assert list(came) == [0], "made before it changed"
    w.set("/n0", b"changed again")
    assert list(came) == [0]
    w.finish(capture, came)
    capture, came = w.begin()
    assert capture.pieces == {0}
    assert {image.path: image.data for image in w.finish(capture, came).nodes}["/n0"] == b"changed again"


def test_snapshot_block_without_znodes_is_removed() -> None:
    w = World()
    for n in range(3 * BLOCK_ZNODES):
        w.create(f"/n{n}")
    gone = w.tree.blocks.by_number[w.tree.nodes[f"/n{BLOCK_ZNODES}"].block]
    for path in list(gone.paths):
        w.do(OpCode.DELETE, DeleteTxn(path))
    assert gone not in list(w.tree.blocks)
    assert len(w.tree.blocks) == 3


def test_taking_a_snapshot_does_not_copy_large_data() -> None:
    w = World()
    data = b"x" * LARGE_BYTES
    w.create("/large", data)
    w.create("/small", b"y")
    capture, came = w.begin()
    capture.step(1)
    assert any(type(part) is memoryview and part == data for part in came[0].parts)
    assert len(came[0].parts) == 3
    snapshot = w.finish(capture, came)
    # A tree that was read from a snapshot must have the same properties.
    again = World(DataTree.from_snapshot(snapshot))
    capture, came = again.begin()
    capture.step(1)
    assert sum(len(part) >= LARGE_BYTES for part in came[0].parts) == 1
    assert {image.path: image.data for image in again.finish(capture, came).nodes}["/large"] == data


def test_snapshot_drops_acl_lists_that_no_znode_of_a_block_uses() -> None:
    w = World()
    w.create("/a", b"", SECRETS[0])
    w.do(OpCode.SET_ACL, SetACLTxn("/a", SECRETS[1], 1))
    block = w.tree.blocks.by_number[w.tree.nodes["/a"].block]
    # The third ACL list is that of /zookeeper/config, which is in the same block.
    assert len(block.acls or ()) == 3
    w.finish(*w.begin())
    assert SECRETS[0] not in (block.acls or ()) and SECRETS[1] in (block.acls or ())


def test_unused_acl_lists_are_dropped_without_a_snapshot() -> None:
    """ACL lists that no znode uses any more are freed without waiting for a snapshot.

    Otherwise lists that are set one after the other on one znode would use memory until the next snapshot, 100,000
    transactions later.
    """
    w = World()
    w.create("/kept", b"", SECRETS[0])
    w.create("/a", b"", SECRETS[1])
    block = w.tree.blocks.by_number[w.tree.nodes["/a"].block]
    capture, came = w.begin()
    for version in range(1, 3 * ACLS_MAX):
        w.do(OpCode.SET_ACL, SetACLTxn("/a", (ACL(31, "digest", f"v:{version}"),), version))
        assert len(block.acls or ()) <= ACLS_MAX
    assert {image.path: image.acl for image in w.finish(capture, came).nodes}["/a"] == SECRETS[1]
    lists = {image.path: image.acl for image in w.finish(*w.begin()).nodes}
    assert (lists["/kept"], lists["/a"]) == (SECRETS[0], (ACL(31, "digest", f"v:{3 * ACLS_MAX - 1}"),))


def test_snapshot_can_be_taken_while_another_is_being_sent() -> None:
    """A leader can start a snapshot while it sends its tree to a learner.

    This also holds if the tree has not changed since the leader began to send it.
    """
    w = World()
    w.create("/a", b"before")
    then = w.images()
    sent = w.tree.to_snapshot()
    chunks = encode_tree(sent)
    first = next(chunks)
    capture, came = w.begin()
    w.set("/a", b"after")
    assert {image.path or "/": image for image in w.finish(capture, came).nodes} == then
    decoder = TreeDecoder()
    decoder.feed(first + b"".join(chunks))
    assert {image.path or "/": image for image in decoder.nodes} == then


def test_cancelled_snapshot_encodes_no_block() -> None:
    w = World()
    w.create("/a")
    capture, came = w.begin()
    capture.stop_capture()
    w.set("/a", b"changed")
    assert not came and w.tree.blocks.keeper is None


def test_snapshot_record_contains_data_and_stat_of_its_znode() -> None:
    w = World()
    w.create("/ü", "dätä".encode(), SECRETS[2])
    w.set("/ü", b"other")
    image = w.images()["/ü"]
    assert image in list(w.finish(*w.begin()).nodes)
    assert (image.data, image.version, image.mzxid - image.czxid) == (b"other", 1, 1)
