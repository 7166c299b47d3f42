"""The serialised tree: what a snapshot file holds and what SNAP streams to a learner.

Source: org.apache.zookeeper.server.util.SerializeUtils, DataTree.serialize, ReferenceCountedACLCache, SnapStream.
Sessions (count; id, timeout), the ACL table (count; index, entries), the nodes from the root on, parents before
children (path; data, ACL index, StatPersisted), then the string "/".  A file adds a header before, and behind it a
seal (running Adler32 and "/"), then the digest and the last zxid, each sealed again.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence

from ensemble.ids import SessionId, Zxid
from ensemble.jute import MalformedRecord, Reader, write_buffer, write_string
from ensemble.records import ACL, ACLS, OPEN_ACL
from ensemble.tree.snapshot import NodeImage, TreeSnapshot
from ensemble.txn import DIGEST_VERSION

OPEN_ACL_INDEX = -1
"""Stands for world:anyone with every permission; never in the table."""
CHUNK_BYTES = 64 * 1024
FIELD_BYTES_MAX = 256 * 1024 * 1024
COUNT_MAX = 50_000_000
ACL_ROW_BYTES_MAX = 4 * 1024 * 1024
ROOT_END = b"\0\0\0\1/"
_SESSION = struct.Struct(">qi")
_STAT = struct.Struct(">qqqqqiiiqq")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
DIGEST = struct.Struct(">qiq")
_SIGN = 1 << 63


def signed(digest: int) -> int:
    """A 64-bit digest as the signed long of the wire."""
    return (digest & ((1 << 64) - 1) ^ _SIGN) - _SIGN


def _acl_table(nodes: Sequence[NodeImage]) -> dict[tuple[ACL, ...], int]:
    table: dict[tuple[ACL, ...], int] = {OPEN_ACL: OPEN_ACL_INDEX}
    for node in nodes:
        acl = node.acl if isinstance(node.acl, tuple) else tuple(node.acl)
        if acl not in table:
            table[acl] = len(table)
    return table


def encode_tree(snapshot: TreeSnapshot) -> Iterator[bytes]:
    """The serialised sessions and tree, in chunks of about 64 KiB."""
    out = bytearray(_INT.pack(len(snapshot.sessions)))
    for session_id, timeout_ms in snapshot.sessions.items():
        out += _SESSION.pack(session_id, timeout_ms)
    table = _acl_table(snapshot.nodes)
    out += _INT.pack(len(table) - 1)
    for acl, index in table.items():
        if index != OPEN_ACL_INDEX:
            out += _LONG.pack(index)
            ACLS.write(out, acl)
    for node in snapshot.nodes:
        acl = node.acl if isinstance(node.acl, tuple) else tuple(node.acl)
        write_string(out, node.path)
        write_buffer(out, node.data)
        out += _STAT.pack(
            table[acl], node.czxid, node.mzxid, node.ctime, node.mtime, node.version, node.cversion, node.aversion,
            node.ephemeral_owner, node.pzxid,
        )  # fmt: skip
        if len(out) >= CHUNK_BYTES:
            yield bytes(out)
            out.clear()
    out += ROOT_END
    yield bytes(out)


def encode_digest(snapshot: TreeSnapshot) -> bytes:
    """The digest part of a file: zxid, digest version, digest."""
    return DIGEST.pack(snapshot.zxid, DIGEST_VERSION, signed(snapshot.digest))


def seal(checksum: int) -> bytes:
    """The closing mark of each part of a file."""
    return _LONG.pack(checksum) + ROOT_END


class TreeDecoder:
    """Reads a serialised tree as its bytes arrive.  `feed` them; once `done`, `rest` are the bytes behind it."""

    def __init__(self) -> None:
        self.sessions: dict[SessionId, int] = {}
        self.nodes: list[NodeImage] = []
        self.done = False
        self._acls: dict[int, tuple[ACL, ...]] = {OPEN_ACL_INDEX: OPEN_ACL}
        self._buffer = b""
        self._pos = 0
        self._steps = self._read_all()

    def feed(self, data: bytes) -> None:
        """Take further bytes.  Raises MalformedRecord."""
        self._buffer = self._buffer[self._pos :] + data
        self._pos = 0
        if not self.done:
            next(self._steps)

    @property
    def rest(self) -> bytes:
        """Bytes behind the tree."""
        return self._buffer[self._pos :]

    def snapshot(self, zxid: int, digest: int) -> TreeSnapshot:
        """What was read."""
        return TreeSnapshot(zxid=Zxid(zxid), sessions=self.sessions, nodes=self.nodes, digest=digest)

    def _read_all(self) -> Iterator[None]:
        yield from self._read_sessions()
        yield from self._read_acls()
        yield from self._read_nodes()
        self.done = True
        yield

    def _int(self, maximum: int) -> Generator[None, None, int]:
        while len(self._buffer) - self._pos < 4:
            yield
        value: int = _INT.unpack_from(self._buffer, self._pos)[0]
        if not -1 <= value <= maximum:
            raise MalformedRecord(f"a length of {value}")
        self._pos += 4
        return value

    def _read_sessions(self) -> Iterator[None]:
        for _ in range((yield from self._int(COUNT_MAX))):
            while len(self._buffer) - self._pos < _SESSION.size:
                yield
            session_id, timeout_ms = _SESSION.unpack_from(self._buffer, self._pos)
            self._pos += _SESSION.size
            self.sessions[SessionId(session_id)] = timeout_ms

    def _read_acls(self) -> Iterator[None]:
        for _ in range((yield from self._int(COUNT_MAX))):
            while not self._read_acl():
                yield

    def _read_acl(self) -> bool:
        """One row of the ACL table, or False where it is not complete yet."""
        reader = Reader(self._buffer, self._pos)
        try:
            index = reader.read_long()
            acl = ACLS.read(reader)
        except MalformedRecord:
            if len(self._buffer) - self._pos > ACL_ROW_BYTES_MAX:
                raise
            return False
        self._acls[index] = tuple(acl)
        self._pos = reader.pos
        return True

    def _read_nodes(self) -> Iterator[None]:
        while True:
            path = yield from self._bytes()
            if path == b"/":
                return
            if path is None or (path and path[0] != 0x2F) or bool(path) != bool(self.nodes):
                raise MalformedRecord(f"{path!r} is no path of a tree")
            data = yield from self._bytes()
            while len(self._buffer) - self._pos < _STAT.size:
                yield
            index, *stat = _STAT.unpack_from(self._buffer, self._pos)
            self._pos += _STAT.size
            if index not in self._acls:
                raise MalformedRecord(f"{path!r} names the unknown ACL {index}")
            self.nodes.append(_node(path, data, self._acls[index], stat))

    def _bytes(self) -> Generator[None, None, bytes | None]:
        size = yield from self._int(FIELD_BYTES_MAX)
        if size < 0:
            return None
        while len(self._buffer) - self._pos < size:
            yield
        start = self._pos
        self._pos = start + size
        return self._buffer[start : self._pos]


def _node(path: bytes, data: bytes | None, acl: tuple[ACL, ...], stat: Sequence[int]) -> NodeImage:
    czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral_owner, pzxid = stat
    try:
        text = path.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise MalformedRecord(f"{path!r} is not UTF-8") from None
    return NodeImage(text, data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral_owner, pzxid)
