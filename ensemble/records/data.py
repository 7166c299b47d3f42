"""Data that other records contain: a znode's Stat and its access control list (org.apache.zookeeper.data)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from zabka.ensemble.jute import INT, STRING, Codec, Reader, Record, Writer, record, vector
from zabka.ensemble.records.op_codes import Permission


class Stat(NamedTuple):
    """A znode's metadata, in wire order.  `version` counts data changes, `cversion` changes of the children."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


_STAT = struct.Struct(">qqqqiiiqiiq")


pack_stat = _STAT.pack
STAT_SIZE = _STAT.size


def _write_stat(out: Writer, stat: Stat) -> None:
    out += pack_stat(*stat)


def _read_stat(reader: Reader) -> Stat:
    return Stat._make(_STAT.unpack_from(reader.data, reader.skip_bytes(_STAT.size)))


STAT = Codec(_write_stat, _read_stat)


class ACL(Record, frozen=True):  # type: ignore[misc]  # one value many znodes share
    """One entry of an access control list."""

    perms: int
    scheme: str
    id: str
    layout: ClassVar[tuple[Codec, ...]] = (INT, STRING, STRING)


OPEN_ACL: tuple[ACL, ...] = (ACL(Permission.ALL, "world", "anyone"),)
_ANY_ACLS = vector(record(ACL))
OPEN_ACL_BYTES = bytes.fromhex("00000001 0000001f") + b"\0\0\0\5world\0\0\0\6anyone"


def _write_acls(out: Writer, acl: Sequence[ACL]) -> None:
    if acl is OPEN_ACL:
        out += OPEN_ACL_BYTES
    else:
        _ANY_ACLS.write(out, acl)


def read_acls(reader: Reader) -> Sequence[ACL]:
    """Read an access control list.

    Nearly all ACLs are the open ACL (every client has all permissions). For its bytes this function returns the same
    object each time, so that znodes share the object and ACLs can be compared by identity.
    """
    if reader.data.startswith(OPEN_ACL_BYTES, reader.pos):
        reader.pos += len(OPEN_ACL_BYTES)
        return OPEN_ACL
    acl: Sequence[ACL] = _ANY_ACLS.read(reader)
    return acl


ACLS = Codec(_write_acls, read_acls)
STRINGS = vector(STRING)
