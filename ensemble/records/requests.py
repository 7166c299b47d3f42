"""Bodies of requests about existing znodes, and of requests with only a path or no body.

setData is decoded by a fast path in the common case, as is create (`zabka.ensemble.records.creates`), because nearly
all writes are one of these two.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar

from zabka.ensemble.jute import BOOL, BUFFER, INT, LONG, PRESENT_STRING, STRING, Codec, Reader, Record
from zabka.ensemble.records.data import ACL, ACLS

_int_at = struct.Struct(">i").unpack_from


class DeleteRequest(Record):
    """Request body of delete."""

    path: str
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class PathWatchRequest(Record):
    """Request body of exists, getData, getChildren and getChildren2: a path and whether to set a watch.

    The path can be empty but not null.
    """

    path: str
    watch: bool
    layout: ClassVar[tuple[Codec, ...]] = (PRESENT_STRING, BOOL)


class SetDataRequest(Record):
    """Request body of setData."""

    path: str
    data: bytes | None
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, INT)

    @classmethod
    def read_from(cls, reader: Reader) -> SetDataRequest:
        """Decode the fields in the order of `layout`. Raises MalformedRecord."""
        path, data = reader.read_path_and_data()
        return cls(path, data, reader.read_int())

    @classmethod
    def decode(cls, data: bytes) -> SetDataRequest:
        """Decode the record in `data`, by a fast path in the common case. Raises MalformedRecord."""
        try:
            size: int = _int_at(data, 0)[0]
            length: int = _int_at(data, 4 + size)[0]
            stop = 8 + size + length
            if size >= 0 and length >= 0:
                return cls(data[4 : 4 + size].decode(), data[8 + size : stop], _int_at(data, stop)[0])
        except (struct.error, UnicodeDecodeError):
            pass
        return cls.read_from(Reader(data))


class PathRequest(Record):
    """Request body of getACL, sync, getEphemerals, getAllChildrenNumber and deleteContainer: only a path."""

    path: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING,)


class SetACLRequest(Record):
    """Request body of setACL."""

    path: str
    acl: Sequence[ACL]
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, ACLS, INT)


class CheckVersionRequest(Record):
    """Operation of a multi: check a znode's version."""

    path: str
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class EmptyRequest(Record):
    """Empty body of ping and closeSession requests."""


class ReconfigRequest(Record):
    """Request body of reconfig: joining servers, leaving ids, or all new members, each a string or null.

    The last field is the expected version of the current membership; -1 matches any version.
    """

    joining: bytes | None
    leaving: bytes | None
    new_members: bytes | None
    config_id: int
    layout: ClassVar[tuple[Codec, ...]] = (BUFFER, BUFFER, BUFFER, LONG)
