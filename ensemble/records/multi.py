"""Several operations in one frame: multi (all succeed or none) and multiRead (independent reads)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from zabka.ensemble.jute import MalformedRecord, Reader, Record, Writer, pack_int
from zabka.ensemble.records.creates import CREATES
from zabka.ensemble.records.op_codes import OpCode
from zabka.ensemble.records.requests import (
    CheckVersionRequest,
    DeleteRequest,
    EmptyRequest,
    PathWatchRequest,
    SetDataRequest,
)
from zabka.ensemble.records.responses import (
    GetChildrenResponse,
    GetDataResponse,
    StatResponse,
)

MULTI_BODIES: dict[int, type[Record]] = {
    **{op: made.request for op, made in CREATES.items()},
    OpCode.DELETE: DeleteRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.CHECK: CheckVersionRequest,
}
MULTI_RESPONSES: dict[int, type[Record]] = {
    **{op: made.response for op, made in CREATES.items()},
    OpCode.DELETE: EmptyRequest,
    OpCode.SET_DATA: StatResponse,
    OpCode.CHECK: EmptyRequest,
    OpCode.GET_DATA: GetDataResponse,
    OpCode.GET_CHILDREN: GetChildrenResponse,
}


class MultiOp(NamedTuple):
    """One operation of a multi request."""

    op: OpCode
    body: Record


class MultiRequest(msgspec.Struct):
    """Body of multi: operations that succeed or fail together (org.apache.zookeeper.MultiOperationRecord)."""

    ops: list[MultiOp]

    def encode_into(self, out: Writer) -> None:
        """Append each op with a header (type, done, err) before it, then the closing header."""
        for op, body in self.ops:
            out += pack_int(op) + b"\0" + pack_int(-1)
            body.encode_into(out)
        out += pack_int(-1) + b"\1" + pack_int(-1)

    @classmethod
    def read_from(cls, reader: Reader) -> MultiRequest:
        """Read ops up to the closing header.

        Raises MalformedRecord.
        """
        ops: list[MultiOp] = []
        while True:
            kind, done = reader.read_int(), reader.read_bool()
            reader.read_int()
            if done:
                return cls(ops)
            if kind not in MULTI_BODIES:
                raise MalformedRecord(f"multi cannot hold op {kind}")
            ops.append(MultiOp(OpCode(kind), MULTI_BODIES[kind].read_from(reader)))


class MultiReadRequest(MultiRequest):
    """Body of multiRead: getData and getChildren reads. Each has its own result; their watch flags are ignored."""

    @classmethod
    def read_from(cls, reader: Reader) -> MultiReadRequest:
        """Read ops up to the closing header.

        Raises MalformedRecord.
        """
        ops: list[MultiOp] = []
        while True:
            kind, done = reader.read_int(), reader.read_bool()
            reader.read_int()
            if done:
                return cls(ops)
            if kind not in (OpCode.GET_DATA, OpCode.GET_CHILDREN):
                raise MalformedRecord(f"multiRead cannot hold op {kind}")
            ops.append(MultiOp(OpCode(kind), PathWatchRequest.read_from(reader)))


class MultiResult(NamedTuple):
    """One operation's result: its op code and response, or OpCode.ERROR and the error code."""

    op: OpCode
    error: int
    body: Record | None


class MultiResponse(msgspec.Struct):
    """Reply to multi: one result per operation."""

    results: list[MultiResult]

    def encode_into(self, out: Writer) -> None:
        """Append each result after its header, then the closing header (org.apache.zookeeper.MultiResponse)."""
        for op, error, body in self.results:
            if op is OpCode.ERROR:
                out += pack_int(-1) + b"\0" + pack_int(error) + pack_int(error)
            else:
                out += pack_int(op) + b"\0" + pack_int(0)
                if body is not None:
                    body.encode_into(out)
        out += pack_int(-1) + b"\1" + pack_int(-1)

    @classmethod
    def read_from(cls, reader: Reader) -> MultiResponse:
        """Read results up to the closing header.

        Raises MalformedRecord.
        """
        results: list[MultiResult] = []
        while True:
            kind, done, error = reader.read_int(), reader.read_bool(), reader.read_int()
            if done:
                return cls(results)
            if kind == OpCode.ERROR:
                results.append(MultiResult(OpCode.ERROR, reader.read_int(), None))
                continue
            if kind not in MULTI_RESPONSES:
                raise MalformedRecord(f"multi cannot answer op {kind}")
            results.append(MultiResult(OpCode(kind), error, MULTI_RESPONSES[kind].read_from(reader)))
