"""Records for the creation of znodes: the request and response of each create op, and the table of these ops.

To add a kind of znode, add its op here; `zabka.ensemble.tree.create_modes` defines the rules of creation.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from zabka.ensemble.jute import BUFFER, INT, LONG, STRING, Codec, Reader, Record
from zabka.ensemble.records.data import ACL, ACLS, OPEN_ACL, OPEN_ACL_BYTES, STAT, Stat, read_acls
from zabka.ensemble.records.op_codes import OpCode

_int_at = struct.Struct(">i").unpack_from


class CreateRequest(Record):
    """Request body of create, create2 and createContainer."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, INT)

    @classmethod
    def read_from(cls, reader: Reader) -> CreateRequest:
        """Decode the fields in the order of `layout`. Raises MalformedRecord."""
        path, data = reader.read_path_and_data()
        return cls(path, data, read_acls(reader), reader.read_int())

    @classmethod
    def decode(cls, data: bytes) -> CreateRequest:
        """Decode the record in `data`, by a fast path in the common case. Raises MalformedRecord."""
        try:
            size: int = _int_at(data, 0)[0]
            length: int = _int_at(data, 4 + size)[0]
            stop = 8 + size + length
            if size >= 0 and length >= 0 and data.startswith(OPEN_ACL_BYTES, stop):
                flags: int = _int_at(data, stop + len(OPEN_ACL_BYTES))[0]
                return cls(data[4 : 4 + size].decode(), data[8 + size : stop], OPEN_ACL, flags)
        except (struct.error, UnicodeDecodeError):
            pass
        return cls.read_from(Reader(data))


class CreateTTLRequest(Record):
    """Request body of createTTL."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int
    ttl_ms: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, INT, LONG)


class CreateResponse(Record):
    """Reply to create: the path of the created znode."""

    path: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING,)


class Create2Response(Record):
    """Reply to create2, createContainer and createTTL."""

    path: str
    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (STRING, STAT)


class CreateOp(NamedTuple):
    """Request and response records of an op that creates a znode."""

    request: type[CreateRequest] | type[CreateTTLRequest]
    response: type[CreateResponse] | type[Create2Response]


CREATES: dict[int, CreateOp] = {
    OpCode.CREATE: CreateOp(CreateRequest, CreateResponse),
    OpCode.CREATE2: CreateOp(CreateRequest, Create2Response),
    OpCode.CREATE_CONTAINER: CreateOp(CreateRequest, Create2Response),
    OpCode.CREATE_TTL: CreateOp(CreateTTLRequest, Create2Response),
}
