"""Bodies of requests about existing znodes, and of requests with only a path or no body.

setData is decoded in one step in the common case, and so is create (`zabka.ensemble.records.creates`): nearly all
writes are of these two kinds.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar

from zabka.ensemble.jute import BOOL, BUFFER, INT, LONG, PRESENT_STRING, STRING, Codec, Reader, Record
from zabka.ensemble.records.data import ACL, ACLS

_int_at = struct.Struct(">i").unpack_from


class DeleteRequest(Record):
    """delete."""

    path: str
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class PathWatchRequest(Record):
    """exists, getData, getChildren and getChildren2: a path, which may be empty but not null, and whether to leave a
    watch."""

    path: str
    watch: bool
    layout: ClassVar[tuple[Codec, ...]] = (PRESENT_STRING, BOOL)


class SetDataRequest(Record):
    """setData."""

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
        """Decode the record in `data`, in one step in the common case. Raises MalformedRecord."""
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
    """getACL, sync, getEphemerals, getAllChildrenNumber, deleteContainer: only a path."""

    path: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING,)


class SetACLRequest(Record):
    """setACL."""

    path: str
    acl: Sequence[ACL]
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, ACLS, INT)


class CheckVersionRequest(Record):
    """check, inside a multi."""

    path: str
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class EmptyRequest(Record):
    """ping, closeSession: no body."""


class ReconfigRequest(Record):
    """reconfig: joining servers, leaving ids, or all new members, each as text or null.

    With the version of the membership that the change applies to, -1 for any.
    """

    joining: bytes | None
    leaving: bytes | None
    new_members: bytes | None
    config_id: int
    layout: ClassVar[tuple[Codec, ...]] = (BUFFER, BUFFER, BUFFER, LONG)
