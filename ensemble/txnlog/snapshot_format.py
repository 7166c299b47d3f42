"""Format of the serialised tree, in a snapshot file and in the SNAP stream to a learner.

Source: org.apache.zookeeper.server.util.SerializeUtils, DataTree.serialize, ReferenceCountedACLCache, SnapStream. The
tree consists of the sessions (count; id, timeout), the ACL table (count; index, entries), the znodes beginning with the
root, parents before children (path; data, ACL index, StatPersisted), and the string "/". A file has a header before the
tree, and after it a seal (the Adler32 of everything before it, and "/"), then the digest and the last zxid, each with a
seal.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from struct import error as StructError

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import MalformedRecord, Reader
from zabka.ensemble.records import ACL, ACLS, OPEN_ACL
from zabka.ensemble.tree.acl import interned
from zabka.ensemble.tree.blocks import BLOCK_ZNODES
from zabka.ensemble.tree.paths import ROOT
from zabka.ensemble.tree.shared_nodes import SharedNodes
from zabka.ensemble.tree.stored import OPEN_ACL_INDEX, STAT, AclTable, StoredNodes, records_of
from zabka.ensemble.tree.znode import LISTED, NO_DATA, TAIL, UNSEALED, value_of
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import DIGEST_VERSION

CHUNK_BYTES = 64 * 1024
FIELD_BYTES_MAX = 256 * 1024 * 1024
COUNT_MAX = 50_000_000
ACL_ROW_BYTES_MAX = 4 * 1024 * 1024
ROOT_END = b"\0\0\0\1/"
_SESSION = struct.Struct(">qi")
_TAIL = struct.Struct(">q44xq8x")
"""Layout of the last part of a znode's record, from which the ACL index and the ephemeralOwner are read."""
_SLASH = 0x2F
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
DIGEST = struct.Struct(">qiq")
_SIGN = 1 << 63


def signed(digest: int) -> int:
    """Convert an unsigned 64-bit digest to a signed long, as in the file."""
    return (digest & ((1 << 64) - 1) ^ _SIGN) - _SIGN


class _ImageNodes:
    """Znode images (`NodeImage`) as a source of encoded records."""

    def __init__(self, images: Sequence[NodeImage]) -> None:
        self._images = images

    def used_acls(self) -> Iterable[Sequence[ACL]]:
        return (image.acl for image in self._images)

    def encoded(self, table: AclTable) -> Iterator[bytes | memoryview]:
        acls = {image.path or ROOT: image.acl for image in self._images}
        pairs = (
            (image.path or ROOT, value_of(image, block=0, listed=image.acl is not OPEN_ACL)) for image in self._images
        )
        return records_of(pairs, acls, table)


def encode_head(sessions: Mapping[SessionId, int], table: AclTable) -> bytearray:
    """Encode the part before the znodes: the sessions and the ACLs."""
    out = bytearray(_INT.pack(len(sessions)))
    for session_id, timeout_ms in sessions.items():
        out += _SESSION.pack(session_id, timeout_ms)
    out += _INT.pack(len(table.rows) - 1)
    for row, index in table.rows.items():
        if index != OPEN_ACL_INDEX:
            out += _LONG.pack(index)
            ACLS.write(out, row)
    return out


def encode_tree(snapshot: TreeSnapshot) -> Iterator[bytes]:
    """Yield the serialised sessions and znodes, in chunks of about 64 KiB."""
    nodes = snapshot.nodes
    source = nodes if isinstance(nodes, SharedNodes | StoredNodes) else _ImageNodes(nodes)
    table = AclTable()
    for acl in source.used_acls():
        table.index(acl)
    yield bytes(encode_head(snapshot.sessions, table))
    yield from in_chunks(source.encoded(table))
    yield ROOT_END


def in_chunks(records: Iterable[bytes | memoryview], size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Join records into chunks of about `size` bytes; no chunk is empty."""
    out = bytearray()
    for record in records:
        if not out and len(record) >= size:
            yield bytes(record)
            continue
        out += record
        if len(out) >= size:
            yield bytes(out)
            out.clear()
    if out:
        yield bytes(out)


def encode_digest(snapshot: TreeSnapshot) -> bytes:
    """Encode the digest part of a file: zxid, digest version, digest."""
    return DIGEST.pack(snapshot.zxid, DIGEST_VERSION, signed(snapshot.digest))


def seal(checksum: int) -> bytes:
    """Return the seal after a part of a file: the checksum and "/"."""
    return _LONG.pack(checksum) + ROOT_END


class TreeDecoder:
    """Decodes a serialised tree while its bytes arrive.

    Pass the bytes to `feed`; when `done` is True, `rest` returns the bytes after the tree.
    """

    def __init__(self) -> None:
        self.sessions: dict[SessionId, int] = {}
        self.nodes = StoredNodes()
        self.done = False
        self._acls: dict[int, Sequence[ACL]] = {OPEN_ACL_INDEX: OPEN_ACL}
        self._buffer = b""
        self._pos = 0
        self._steps = self._read_all()

    def feed(self, data: bytes) -> None:
        """Process further bytes. Raises MalformedRecord."""
        self._buffer = self._buffer[self._pos :] + data
        self._pos = 0
        if not self.done:
            next(self._steps)

    @property
    def rest(self) -> bytes:
        """Return the bytes after the tree."""
        return self._buffer[self._pos :]

    def snapshot(self, zxid: int, digest: int) -> TreeSnapshot:
        """Return the decoded snapshot."""
        return TreeSnapshot(zxid=Zxid(zxid), sessions=self.sessions, nodes=self.nodes, digest=digest)

    def _read_all(self) -> Iterator[None]:
        yield from self._read_sessions()
        yield from self._read_acls()
        while not self._read_nodes():
            yield
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
        """Decode one entry of the ACL table; return False if its bytes have not arrived completely."""
        reader = Reader(self._buffer, self._pos)
        try:
            index = reader.read_long()
            acl = ACLS.read(reader)
        except MalformedRecord:
            if len(self._buffer) - self._pos > ACL_ROW_BYTES_MAX:
                raise
            return False
        self._acls[index] = interned(acl)
        self._pos = reader.pos
        return True

    def _read_nodes(self) -> bool:
        """Decode the complete records; return whether the tree's last record was decoded.

        This is one loop for speed, because a million records may be read at start.
        """
        buffer, at = self._buffer, self._pos
        nodes, acls = self.nodes, self._acls
        add_path, add_value, add_acl = nodes.paths.append, nodes.values.append, nodes.acls.append
        count = len(nodes.paths)
        plain = TAIL.pack(0, 0, count // BLOCK_ZNODES, UNSEALED)
        int_at, tail_at, int_bytes, stat_bytes = _INT.unpack_from, _TAIL.unpack_from, _INT.size, STAT.size
        data_bytes = index = path_size = size = stat_at = 0
        try:
            while True:
                (path_size,) = int_at(buffer, at)
                path_at = at + int_bytes
                path_end = path_at + path_size
                if path_size > 1 and nodes.paths:
                    if buffer[path_at] != _SLASH:
                        raise MalformedRecord(f"{buffer[path_at:path_end]!r} is no path of a tree")
                elif path_size == 1 and nodes.paths and buffer[path_at] == _SLASH:
                    at = path_end
                    return True
                elif path_size or nodes.paths:
                    raise MalformedRecord(f"{buffer[path_at : path_at + max(path_size, 0)]!r} is no path of a tree")
                (size,) = int_at(buffer, path_end)
                stat_at = path_end + int_bytes
                if size > 0:
                    stat_at += size
                    data_bytes += size
                elif size < -1:
                    raise MalformedRecord(f"a length of {size}")
                index, owner = tail_at(buffer, stat_at)
                path = buffer[path_at:path_end].decode("utf-8", "surrogatepass")
                acl = acls[index]
                add_acl(acl)
                add_path(path)
                if not count % BLOCK_ZNODES:
                    plain = TAIL.pack(0, 0, count // BLOCK_ZNODES, UNSEALED)
                tail = plain
                if size < 0 or acl is not OPEN_ACL:
                    flags = UNSEALED | (NO_DATA if size < 0 else 0) | (LISTED if acl is not OPEN_ACL else 0)
                    tail = TAIL.pack(0, 0, count // BLOCK_ZNODES, flags)
                count += 1
                end = stat_at + stat_bytes
                pzxid_at, mtimes_at = end - 8, stat_at + 24
                add_value(b"".join((
                    buffer[stat_at + 8 : mtimes_at], buffer[pzxid_at:end], buffer[mtimes_at:pzxid_at], tail,
                    buffer[path_end + 4 : stat_at],
                )))  # fmt: skip
                if owner:
                    nodes.owned.append((path, owner))
                at = end
        except UnicodeDecodeError:
            raise MalformedRecord(f"{buffer[path_at:path_end]!r} is not UTF-8") from None
        except KeyError:
            raise MalformedRecord(f"a node names the unknown ACL {index}") from None
        except (StructError, IndexError):
            if path_size > FIELD_BYTES_MAX or size > FIELD_BYTES_MAX:
                raise MalformedRecord("a node that is too large") from None
            if stat_at > at and size > 0:
                data_bytes -= size  # it will be read again from its beginning
            return False
        finally:
            self._pos = at
            nodes.data_bytes += data_bytes
