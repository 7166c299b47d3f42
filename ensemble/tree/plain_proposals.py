"""Fast path for the two most frequent writes, setData and create of a plain znode: one step each.

Any special case (a rejection of any kind, an ACL, a flag, a quota, a malformed body) is handled by the general path,
`zabka.ensemble.tree.proposer`, which gives the same result for plain writes, but more slowly.
"""

from __future__ import annotations

from struct import Struct, error
from zlib import crc32

from zabka.ensemble.ids import Zxid
from zabka.ensemble.records import OPEN_ACL, OPEN_ACL_BYTES, OpCode, Permission
from zabka.ensemble.tree.acl import allows
from zabka.ensemble.tree.create_modes import PERSISTENT
from zabka.ensemble.tree.datatree import DIGEST_MASK
from zabka.ensemble.tree.outstanding import Outstanding
from zabka.ensemble.tree.paths import ROOT
from zabka.ensemble.tree.sessions import Owner, SessionTracker
from zabka.ensemble.tree.znode import next_version
from zabka.ensemble.txn import CreateTxn, SetDataTxn, Txn, plain_create_bytes, plain_set_data_bytes
from zabka.ensemble.zab.messages import ForwardedRequest

_SET_DATA, _CREATE = int(OpCode.SET_DATA), int(OpCode.CREATE)
_MAY_CREATE, _MAY_WRITE = int(Permission.CREATE), int(Permission.WRITE)
_FLAGS_AT = len(OPEN_ACL_BYTES)
_NOT_NAMES = frozenset({"", ".", ".."})
_SYSTEM = "/zookeeper/"
_int_at = Struct(">i").unpack_from


class PlainProposals:
    """Prepares plain writes against the latest proposed state.

    For any other request, `prepare` returns None and changes nothing.
    """

    __slots__ = ("_outstanding", "_tracker")

    def __init__(self, outstanding: Outstanding, tracker: SessionTracker) -> None:
        self._outstanding = outstanding
        self._tracker = tracker

    def prepare(self, time_ms: int, request: ForwardedRequest, zxid: Zxid, owner: Owner) -> Txn | None:
        """Return the transaction for a plain write, with its encoded bytes, or None if it needs the general path.

        Path and data are copied from the request's bytes.
        """
        op, body = request.op, request.body
        if op != _SET_DATA and op != _CREATE:
            return None
        try:
            size: int = _int_at(body, 0)[0]
            middle = 4 + size
            length: int = _int_at(body, middle)[0]
            stop = middle + 4 + length
            last: int = _int_at(body, stop if op == _SET_DATA else stop + _FLAGS_AT)[0]
            raw = body[4:middle]
            path = raw.decode()
        except (error, UnicodeDecodeError):
            return None
        # The general path handles writes to the root, because the root's digest is computed differently.
        if size < 2 or length < 0 or path[:11] == _SYSTEM or not self._tracker.standing(request.session_id, owner):
            return None
        data = body[middle + 4 : stop]
        seed = crc32(data, crc32(raw))
        if op == _SET_DATA:
            return self._set_data(time_ms, request, zxid, path, data, last, seed, body[:stop])
        if last != PERSISTENT or not body.startswith(OPEN_ACL_BYTES, stop):
            return None
        return self._create(time_ms, request, zxid, path, data, seed, body[: stop + _FLAGS_AT])

    def _set_data(
        self, time_ms: int, request: ForwardedRequest, zxid: Zxid, path: str, data: bytes, version: int, seed: int,
        encoded: bytes,
    ) -> Txn | None:  # fmt: skip
        outstanding = self._outstanding
        node = outstanding.find(path)
        if node is None or (version != -1 and version != node.version):
            return None
        if node.acl is not OPEN_ACL and not allows(node.acl, _MAY_WRITE, request.auth):
            return None
        record = outstanding.change(path, node, zxid)
        version = next_version(record.version)
        outstanding.digest += record.written(version, zxid, time_ms, seed)
        outstanding.foreseen[zxid] = (seed, record.digest, record.packed, 0, b"")
        session_id, cxid, digest = request.session_id, request.cxid, outstanding.digest & DIGEST_MASK
        raw = plain_set_data_bytes(session_id, cxid, zxid, time_ms, encoded, version, digest)
        body = SetDataTxn(path, data, version)
        return Txn(session_id, cxid, zxid, time_ms, _SET_DATA, body, digest=digest, raw=raw)

    def _create(
        self, time_ms: int, request: ForwardedRequest, zxid: Zxid, path: str, data: bytes, seed: int, encoded: bytes
    ) -> Txn | None:
        outstanding = self._outstanding
        parent_path, slash, name = path.rpartition("/")
        # Check only the name, because an existing parent has a valid path. (The parent of "//name" does not exist.)
        if not slash or parent_path == ROOT or name in _NOT_NAMES or not name.isascii() or not name.isprintable():
            return None
        parent_path = parent_path or ROOT
        parent = outstanding.find(parent_path)
        if parent is None or parent.ephemeral_owner or outstanding.find(path) is not None:
            return None
        if parent.acl is not OPEN_ACL and not allows(parent.acl, _MAY_CREATE, request.auth):
            return None
        above = outstanding.change(parent_path, parent, zxid)
        above.child_count += 1
        cversion = above.cversion = next_version(above.cversion)
        above.pzxid = zxid
        node = outstanding.create(path, zxid, 0)
        outstanding.digest += above.redigest() + node.appear(zxid, time_ms, 0, OPEN_ACL, seed)
        outstanding.foreseen[zxid] = (seed, node.digest, node.packed, above.digest, above.packed)
        session_id, cxid, digest = request.session_id, request.cxid, outstanding.digest & DIGEST_MASK
        raw = plain_create_bytes(session_id, cxid, zxid, time_ms, encoded, cversion, digest)
        body = CreateTxn(path, data, OPEN_ACL, False, cversion)
        return Txn(session_id, cxid, zxid, time_ms, _CREATE, body, digest=digest, raw=raw)
