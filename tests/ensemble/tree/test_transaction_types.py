"""A transaction has the op code of its request as its type.

The log, learners and Java servers use the type to read the transaction's body.
"""

from __future__ import annotations

import pytest

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import Record
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import (
    CREATES,
    OPEN_ACL,
    CheckVersionRequest,
    CreateFlag,
    CreateRequest,
    CreateTTLRequest,
    DeleteRequest,
    EmptyRequest,
    MultiOp,
    MultiRequest,
    OpCode,
    PathRequest,
    ReconfigRequest,
    SetACLRequest,
    SetDataRequest,
)
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.proposer import Proposer
from zabka.ensemble.tree.sessions import SessionTracker
from zabka.ensemble.tree_rules import TreeRules
from zabka.ensemble.txn import TXN_BODIES, CreateSessionTxn, ErrorTxn, MultiTxn, Txn
from zabka.ensemble.zab.application import EnsembleView
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import ForwardedRequest

NOW = Instant(0, 1_000_000)
TWO = Membership.parse("server.1=10.0.0.1:1:2:participant\nserver.2=10.0.0.2:1:2:participant\nversion=100000000")
JOINING = b"server.3=10.0.0.3:1:2:observer;0.0.0.0:3"
SESSION = SessionId(7)

Asked = tuple[OpCode, Record]


def creates(op: OpCode) -> list[Asked]:
    """Return create requests with that op code, one for each value of the flags that a client can send."""
    if CREATES[op].request is CreateTTLRequest:
        return [(op, CreateTTLRequest("/new", b"", OPEN_ACL, flags, 5)) for flags in CreateFlag]
    return [(op, CreateRequest("/new", b"", OPEN_ACL, flags)) for flags in CreateFlag]


OTHERS: list[Asked] = [
    (OpCode.DELETE, DeleteRequest("/there", -1)),
    (OpCode.DELETE_CONTAINER, PathRequest("/there")),
    (OpCode.SET_DATA, SetDataRequest("/there", b"x", -1)),
    (OpCode.CHECK, CheckVersionRequest("/there", -1)),
]
"""Operations other than creates that a multi can contain."""
ALONE: list[Asked] = [
    (OpCode.SET_ACL, SetACLRequest("/there", OPEN_ACL, -1)),
    (OpCode.CREATE_SESSION, CreateSessionTxn(4000)),
    (OpCode.CLOSE_SESSION, EmptyRequest()),
    (OpCode.RECONFIG, ReconfigRequest(JOINING, None, None, -1)),
]
CREATED = [asked for op in CREATES for asked in creates(OpCode(op))]


def proposed(op: OpCode, body: Record | MultiRequest) -> Txn:
    """Return the transaction that a request becomes, if the tree contains the znode `/there`."""
    tree, tracker = DataTree(), SessionTracker(100, NOW)
    proposer = Proposer(tree, tracker, rules=TreeRules(extended_types=True))
    session: Asked = OpCode.CREATE_SESSION, CreateSessionTxn(4000)
    there: Asked = OpCode.CREATE, CreateRequest("/there", b"", OPEN_ACL, 0)
    for zxid, (kind, record) in enumerate((session, there), 1):
        txn = proposer.prepare(NOW, ForwardedRequest(SESSION, zxid, kind, record.encode(), ()), Zxid(zxid), None)
        tree.apply(txn)
        proposer.applied(txn.zxid)
    encoded = bytearray()
    body.encode_into(encoded)
    request = ForwardedRequest(SESSION, 3, op, bytes(encoded), (("super", ""),))
    if op != OpCode.RECONFIG:
        return proposer.prepare(NOW, request, Zxid(3), None)
    view = EnsembleView(TWO, TWO, TWO.voters, True, standalone_enabled=True)
    return proposer.prepare_reconfig(NOW, request, Zxid(3), None, view)


def label(asked: Asked) -> str:
    return f"{OpCode(asked[0]).name}-{getattr(asked[1], 'flags', '')}".rstrip("-")


@pytest.mark.parametrize("asked", [*CREATED, *OTHERS, *ALONE], ids=label)
def test_transaction_body_has_the_class_of_its_type(asked: Asked) -> None:
    txn = proposed(*asked)
    assert type(txn.body) is TXN_BODIES[txn.type]
    assert type(txn.body) is ErrorTxn or txn.type == asked[0]
    assert Txn.decode(txn.encoded()).body == txn.body


@pytest.mark.parametrize("asked", [*CREATED, *OTHERS], ids=label)
def test_transactions_in_a_multi_survive_a_round_trip(asked: Asked) -> None:
    op, body = asked
    txn = proposed(OpCode.MULTI, MultiRequest([MultiOp(op, body)]))
    assert type(txn.body) is TXN_BODIES[txn.type]
    for sub in txn.body.txns if isinstance(txn.body, MultiTxn) else ():
        assert sub.body().encode() == sub.data


def test_every_transaction_type_has_a_test() -> None:
    asked_for = {op for op, _ in [*CREATED, *OTHERS, *ALONE]}
    assert asked_for | {OpCode.MULTI, OpCode.ERROR} == set(TXN_BODIES)
