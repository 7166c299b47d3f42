"""Replies to writes, built when their transactions are applied (FinalRequestProcessor)."""

from __future__ import annotations

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.jute import Record
from zabka.ensemble.records import (
    AnyResponse,
    Create2Response,
    CreateResponse,
    EmptyRequest,
    GetDataResponse,
    MultiResponse,
    MultiResult,
    OpCode,
    Reply,
    StatResponse,
)
from zabka.ensemble.tree.connections import Waiting
from zabka.ensemble.tree.outcomes import Applied
from zabka.ensemble.txn import ErrorTxn, MultiTxn, SetDataTxn, Txn

_MOVED = int(ErrorCode.SESSION_MOVED)


def moved(txn: Txn) -> bool:
    """Return whether the write was rejected because its session has moved to another server."""
    body: Record | None = txn.body
    if isinstance(body, MultiTxn):
        body = next((sub.body() for sub in body.txns if sub.type == OpCode.ERROR), None)
    return isinstance(body, ErrorTxn) and body.err == _MOVED


def answer_write(waiting: Waiting, txn: Txn, applied: Applied) -> Reply:
    """Return the reply to a write.

    The reply to a failed multi has no error in its header, but one error per operation in its body.
    """
    if applied.results is not None:
        return Reply(waiting.cxid, txn.zxid, 0, MultiResponse([_result(result) for result in applied.results]))
    if applied.error:
        return Reply(waiting.cxid, txn.zxid, applied.error)
    if isinstance(txn.body, SetDataTxn) and txn.type == OpCode.RECONFIG:
        return Reply(waiting.cxid, txn.zxid, 0, GetDataResponse(txn.body.data, applied.final_stat()))
    return Reply(waiting.cxid, txn.zxid, 0, _response(applied))


def _response(applied: Applied) -> AnyResponse | None:
    kind = applied.type
    if kind == OpCode.CREATE:
        return CreateResponse(applied.path)
    if kind in (OpCode.DELETE, OpCode.DELETE_CONTAINER, OpCode.CHECK):
        return None
    if kind in (OpCode.SET_DATA, OpCode.SET_ACL):
        return StatResponse(applied.final_stat())
    return Create2Response(applied.path, applied.final_stat())


def _result(applied: Applied) -> MultiResult:
    if applied.type == OpCode.ERROR or applied.error:
        return MultiResult(OpCode.ERROR, applied.error, None)
    response = _response(applied)
    body: Record = response if isinstance(response, Record) else EmptyRequest()
    # In the reply to a multi, the result of every create has the op code create2.
    kind = OpCode.CREATE2 if isinstance(body, Create2Response) else OpCode(applied.type)
    return MultiResult(kind, 0, body)
