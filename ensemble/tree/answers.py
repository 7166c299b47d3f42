"""Answers to writes, once their transactions are applied (FinalRequestProcessor)."""

from __future__ import annotations

from ensemble.errors import ErrorCode
from ensemble.jute import Record
from ensemble.records import (
    AnyResponse,
    Create2Response,
    CreateResponse,
    EmptyRequest,
    MultiResponse,
    MultiResult,
    OpCode,
    Reply,
    StatResponse,
)
from ensemble.tree.connections import Waiting
from ensemble.tree.datatree import Applied
from ensemble.txn import Txn

_MOVED = int(ErrorCode.SESSION_MOVED)


def moved(txn: Txn, applied: Applied) -> bool:
    """Whether the write was refused because its session is connected to another server by now."""
    return applied.error == _MOVED and txn.type in (OpCode.ERROR, OpCode.MULTI)


def answer_write(waiting: Waiting, txn: Txn, applied: Applied) -> Reply:
    """The reply to a write; a failed multi succeeds as a whole and tells its errors operation by operation."""
    if applied.results is not None:
        return Reply(waiting.cxid, txn.zxid, 0, MultiResponse([_result(result) for result in applied.results]))
    if applied.error:
        return Reply(waiting.cxid, txn.zxid, applied.error)
    return Reply(waiting.cxid, txn.zxid, 0, _response(applied))


def _response(applied: Applied) -> AnyResponse | None:
    kind, stat = applied.type, applied.stat
    if kind == OpCode.CREATE:
        return CreateResponse(applied.path)
    if kind in (OpCode.DELETE, OpCode.DELETE_CONTAINER, OpCode.CHECK):
        return None
    assert stat is not None, f"no Stat for the answer to op {kind}"
    if kind in (OpCode.SET_DATA, OpCode.SET_ACL):
        return StatResponse(stat)
    return Create2Response(applied.path, stat)


def _result(applied: Applied) -> MultiResult:
    if applied.type == OpCode.ERROR or applied.error:
        return MultiResult(OpCode.ERROR, applied.error, None)
    response = _response(applied)
    body: Record = response if isinstance(response, Record) else EmptyRequest()
    return MultiResult(OpCode(applied.type), 0, body)
