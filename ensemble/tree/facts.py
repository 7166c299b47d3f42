"""Journal events of a peer's service about the transactions it applied and the writes it acknowledged."""

from __future__ import annotations

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.jute import Record
from zabka.ensemble.records import (
    REPLY_HEADER_SIZE,
    AnyResponse,
    Create2Response,
    CreateResponse,
    EventType,
    MultiRequest,
    MultiResponse,
    OpCode,
    ReplyFrames,
    Request,
)
from zabka.ensemble.tree.connections import Waiting
from zabka.ensemble.tree.create_modes import is_ephemeral
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.outcomes import Applied
from zabka.ensemble.txn import CreateSessionTxn, ErrorTxn, Txn
from zabka.journal.cause import expiry_cause, request_cause
from zabka.journal.events import (
    EphemeralCreated,
    EphemeralDeleted,
    Event,
    SessionClosed,
    SessionCreated,
    TxnCommitted,
    WriteAcknowledged,
)

OP_NAMES: dict[int, str] = {
    op: "".join(part.capitalize() if i else part for i, part in enumerate(op.name.lower().split("_"))) for op in OpCode
}
"""Names of the ops in ZooDefs, such as `setData`."""


def session_fact(txn: Txn, tree: DataTree) -> Event | None:
    """Return the journal event for an applied transaction that opened or closed a session, otherwise None."""
    if txn.type == OpCode.CREATE_SESSION:
        assert isinstance(txn.body, CreateSessionTxn)
        return SessionCreated(txn.session_id, txn.body.timeout_ms, txn.zxid)
    if txn.type == OpCode.CLOSE_SESSION:
        # A client's closeSession has a nonzero cxid; the leader closes expired sessions with cxid 0.
        caused_by = request_cause("closeSession") if txn.cxid else expiry_cause(txn.session_id)
        return SessionClosed(txn.session_id, txn.zxid, [change.path for change in tree.changes], caused_by)
    return None


def committed_facts(txn: Txn, tree: DataTree, applied: Applied) -> list[Event]:
    """Return the events about a transaction that was just applied, for a journal of the full level."""
    operation = OP_NAMES.get(txn.type, str(txn.type))
    error = txn.body.err if isinstance(txn.body, ErrorTxn) else applied.error
    facts: list[Event] = [
        TxnCommitted(txn.zxid, txn.session_id, txn.cxid, operation, path=applied.path, error=error, digest=tree.digest)
    ]
    for change in tree.changes:
        if is_ephemeral(change.owner):
            if change.event is EventType.CREATED:
                facts.append(EphemeralCreated(change.path, change.owner, txn.zxid))
            elif change.event is EventType.DELETED:
                facts.append(EphemeralDeleted(change.path, change.owner, txn.zxid))
    return facts


def committed_plain_fact(txn: Txn, tree: DataTree) -> Event:
    """Return the event about an applied write that changed one znode and no ephemeral.

    Only journals of the full level contain this event.
    """
    operation, path = OP_NAMES[txn.type], getattr(txn.body, "path", "")
    return TxnCommitted(txn.zxid, txn.session_id, txn.cxid, operation, path=path, error=0, digest=tree.digest)


def acknowledged_fact(waiting: Waiting, session_id: int, zxid: int, response: AnyResponse | None) -> Event | None:
    """Return the full journal's event about a write acknowledged to a client, or None for a failed multi."""
    body = waiting.body if waiting.frame is None else Request.decode(waiting.frame).body
    path = getattr(body, "path", "")
    if isinstance(response, CreateResponse | Create2Response):
        path = response.path
    elif isinstance(response, MultiResponse):
        if any(result.error != ErrorCode.OK or result.op is OpCode.ERROR for result in response.results):
            return None
        path = _first_path(waiting, response)
    return WriteAcknowledged(session_id, waiting.cxid, zxid, OP_NAMES[waiting.op], path)


def acknowledged_plain_fact(waiting: Waiting, session_id: int, zxid: int) -> Event:
    """Return the full journal's event about an acknowledged write whose request and reply are undecoded bytes."""
    assert waiting.frame is not None and isinstance(waiting.reply, ReplyFrames)
    if waiting.op == OpCode.CREATE:
        path = CreateResponse.decode(waiting.reply[REPLY_HEADER_SIZE:]).path
    else:
        path = getattr(Request.decode(waiting.frame).body, "path", "")
    return WriteAcknowledged(session_id, waiting.cxid, zxid, OP_NAMES[waiting.op], path)


def _first_path(waiting: Waiting, response: MultiResponse) -> str:
    made: Record | None = response.results[0].body if response.results else None
    if isinstance(made, CreateResponse | Create2Response):
        return made.path
    asked = waiting.body
    return getattr(asked.ops[0].body, "path", "") if isinstance(asked, MultiRequest) and asked.ops else ""
