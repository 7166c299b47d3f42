"""Fast path for the few most frequent requests: builds encoded replies from encoded requests, in one step each.

Any special case (a watch, a missing znode, an ACL, a malformed body) is handled by the general path,
`zabka.ensemble.tree.reads` and `zabka.ensemble.tree.answers`, which gives the same result for plain requests, but more
slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from zabka.ensemble.jute import NULL, MalformedRecord, pack_int
from zabka.ensemble.records import (
    REQUEST_HEADER_SIZE,
    STAT_SIZE,
    CreateRequest,
    DeleteRequest,
    OpCode,
    Permission,
    ReplyFrames,
    SetDataRequest,
    pack_stat,
)
from zabka.ensemble.tree.acl import allows
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.outcomes import Applied
from zabka.ensemble.tree.znode import FLAGS_AT, HEAD_BYTES, NO_DATA, stat_fields
from zabka.ensemble.txn import CreateTxn, Txn

RESPONSES_MAX = 10_000
"""Maximum number of cached getData replies: twice as many as in ZooKeeper, far fewer than a tree's znodes.

The cache is cleared when it is full.
"""
RESPONSE_BYTES_MAX = 1024
"""Maximum data size of a cached reply: for longer data, building the reply costs little more than a copy."""

_READ = int(Permission.READ)
_GET_DATA, _EXISTS, _SET_DATA, _CREATE = (
    int(op) for op in (OpCode.GET_DATA, OpCode.EXISTS, OpCode.SET_DATA, OpCode.CREATE)
)
PLAIN_READS = frozenset({_GET_DATA, _EXISTS})
_PATH_WATCH = Struct(">iii")
_PATH_WATCH_SIZE = 13
_WRITES: dict[int, type[CreateRequest] | type[DeleteRequest] | type[SetDataRequest]] = {
    OpCode.SET_DATA: SetDataRequest,
    OpCode.CREATE: CreateRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.DELETE: DeleteRequest,
}
_NEGATIVE = 0x80
"""Smallest first byte of a negative number."""
_HEADER = Struct(">iiqi")
_HEADER_SIZE = 16
_PATH_AT = REQUEST_HEADER_SIZE + 4
_SET_DATA_SIZE_MIN = _PATH_AT + 8
_int_at = Struct(">i").unpack_from
_CREATED = Struct(">iiqii")
_STAT_ANSWER = Struct(">iiqiqqqqiiiqiiq")
_PLAIN_WRITES = frozenset({_SET_DATA, _CREATE})
_ZXID = Struct(">q")


def answer_plain_reads(tree: DataTree, frames: Sequence[bytes], start: int, out: bytearray, bytes_max: int) -> int:
    """Append replies to plain reads, from index `start`, to `out`; return the index of the first remaining request.

    Stop at the first request that is not a plain read, or when `out` has `bytes_max` bytes. A plain read is getData or
    exists, without a watch, of an existing znode that every client can read.
    """
    responses, zxid = tree.responses, tree.last_zxid
    unpack, pack = _PATH_WATCH.unpack_from, _HEADER.pack
    for index in range(start, len(frames)):
        frame = frames[index]
        size = len(frame)
        if size < _PATH_WATCH_SIZE or len(out) >= bytes_max:
            return index
        xid, op, length = unpack(frame)
        if length != size - _PATH_WATCH_SIZE or frame[-1]:
            return index
        path = frame[12:-1]
        if op == _GET_DATA:
            response = responses.get(path) or _get_data(tree, path)
        elif op == _EXISTS:
            response = _exists(tree, path)
        else:
            return index
        if response is None:
            return index
        out += pack(_HEADER_SIZE + len(response), xid, zxid, 0)
        out += response
    return len(frames)


def _get_data(tree: DataTree, encoded_path: bytes) -> bytes | None:
    """Return the encoded GetDataResponse for a path, and cache it; None if the request is not plain."""
    found = _readable(tree, encoded_path)
    if found is None:
        return None
    path, value = found
    stat = pack_stat(*stat_fields(value, tree.nodes.child_count(path)))
    if value[FLAGS_AT] & NO_DATA:
        response = NULL + stat
    else:
        response = b"".join((pack_int(len(value) - HEAD_BYTES), value[HEAD_BYTES:], stat))
    if len(response) <= RESPONSE_BYTES_MAX:
        if len(tree.responses) >= RESPONSES_MAX:
            tree.responses.clear()
        tree.responses[encoded_path] = response
    return response


def _exists(tree: DataTree, encoded_path: bytes) -> bytes | None:
    found = _readable(tree, encoded_path)
    return pack_stat(*stat_fields(found[1], tree.nodes.child_count(found[0]))) if found is not None else None


def _readable(tree: DataTree, encoded_path: bytes) -> tuple[str, bytes] | None:
    """Return the path and the bytes of a znode, or None if it does not exist or not every client can read it."""
    try:
        path = encoded_path.decode()
    except UnicodeDecodeError:
        return None
    value = tree.nodes.value(path)
    return (path, value) if value is not None and allows(tree.nodes.acl_of(path, value), _READ, ()) else None


def is_well_formed(op: int, frame: bytes) -> bool:
    """Return whether the frame of a write is complete and contains a path.

    A learner checks this before it forwards a write: invalid client data must not reach a leader that runs another
    implementation (a malformed create stops an ensemble of ZooKeeper 3.9.5).
    """
    if op == _SET_DATA and len(frame) >= _SET_DATA_SIZE_MIN:
        data_at, rest = _PATH_AT + _int_at(frame, REQUEST_HEADER_SIZE)[0], len(frame) - 8
        there = _PATH_AT <= data_at <= rest and _int_at(frame, data_at)[0] == rest - data_at
        if there and frame[_PATH_AT:data_at].isascii():
            return True
    try:
        _WRITES[op].decode(frame[REQUEST_HEADER_SIZE:])
    except MalformedRecord:
        return False
    # Reject a null path (length -1). Only this server would read it as an empty path.
    return frame[REQUEST_HEADER_SIZE] < _NEGATIVE


def answer_plain_write(cxid: int, txn: Txn, applied: Applied) -> ReplyFrames | None:
    """Return the encoded reply to a setData or create that succeeded, or None for every other outcome."""
    if applied.error or applied.node is None or applied.type not in _PLAIN_WRITES:
        return None
    return plain_write_answer(cxid, txn, applied.node.value, applied.node.child_count)


def plain_write_answer(cxid: int, txn: Txn, value: bytes, child_count: int) -> bytes:
    """Return the encoded reply to a setData or create, given the znode's bytes after the write."""
    body = txn.body
    if not isinstance(body, CreateTxn):
        return _STAT_ANSWER.pack(_HEADER_SIZE + STAT_SIZE, cxid, txn.zxid, 0, *stat_fields(value, child_count))
    path = body.path.encode("utf-8", "surrogatepass")
    size = len(path)
    return _CREATED.pack(_HEADER_SIZE + 4 + size, cxid, txn.zxid, 0, size) + path


def zxid_of(reply: ReplyFrames) -> int:
    """Return the zxid in the header of an encoded reply."""
    zxid: int = _ZXID.unpack_from(reply, 8)[0]
    return zxid
