"""The fast path for setData and create of plain znodes has the same results as the general code.

It produces the same transaction bytes, digests and tree.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ensemble.tree.tree_driver import Ensemble, create, delete, multi, set_acl, set_data
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import LinkId, SessionId, Zxid
from zabka.ensemble.jute import pack_int
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ACL, OPEN_ACL, CreateFlag, Frames, OpCode, Request
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.paths import QUOTA
from zabka.ensemble.tree.proposer import Proposer
from zabka.ensemble.tree.sessions import LOCAL, SessionTracker
from zabka.ensemble.tree.znode import digest_seed
from zabka.ensemble.txn import CreateSessionTxn, CreateTxn, ErrorTxn, SetDataTxn, Txn, decode_plain
from zabka.ensemble.zab.messages import ForwardedRequest

READABLE = (ACL(1, "world", "anyone"), ACL(30, "digest", "u:x"))
PATH = st.sampled_from(
    ("/a", "/b", "/a/c", "/a/c/d", "/ü", "/a/ü", "/a//b", "//a", "/a/..", "/a/.", "/a/", "", "x", "/", "/a/\x7f",
     "/a/\udc80", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats")
)  # fmt: skip
DATA = st.one_of(st.none(), st.binary(max_size=3), st.just(b"count=1,bytes=2"))
WRITES = st.one_of(
    st.builds(set_data, PATH, DATA, st.sampled_from([-1, -1, -1, 0, 1])),
    st.builds(create, PATH, DATA, st.sampled_from([0, 0, 0, 1, 2, 9]), st.just(OPEN_ACL), st.just(OpCode.CREATE)),
    st.builds(create, PATH, DATA, st.just(0), st.sampled_from([READABLE, ()]), st.just(OpCode.CREATE)),
    st.builds(delete, PATH, st.sampled_from([-1, 0])),
    st.builds(set_acl, PATH, st.sampled_from([READABLE, OPEN_ACL])),
    st.just(multi(set_data("/a", b"m"), create("/a/c", b"m"), delete("/b"))),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.lists(WRITES, min_size=1, max_size=5), st.sampled_from([1, 1, 1, 2, 9]), st.booleans()),
        st.tuples(st.just([]), st.integers(1, 8), st.just(False)),
    ),
    max_size=20,
)


class Side:
    """A proposer with its tree, and the tree of a learner. With `plain`, they use the fast path for plain writes."""

    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.leader, self.learner = DataTree(), DataTree()
        tracker = SessionTracker(100, Instant(1000, 5000))
        self.proposer = Proposer(self.leader, tracker)
        if not plain:
            self.proposer._plain = None
        self.pending: list[Txn] = []
        self.zxid = 0
        for session_id in (1, 2):
            self.propose(
                [ForwardedRequest(SessionId(session_id), 0, OpCode.CREATE_SESSION, CreateSessionTxn(9).encode())]
            )
        self.apply(2)

    def propose(self, requests: list[ForwardedRequest], origin: LinkId | None = None) -> None:
        first = Zxid(self.zxid + 1)
        self.pending += self.proposer.prepare_all(Instant(1000, 5000 + self.zxid), requests, first, origin)
        self.zxid += len(requests)

    def apply(self, count: int) -> None:
        txns, self.pending = self.pending[:count], self.pending[count:]
        for txn in txns:
            received = Txn.decode(txn.encoded())
            for tree, applied in ((self.leader, txn), (self.learner, received)):
                if not self.plain or tree.apply_plain(applied) is None:
                    tree.apply(applied)
                assert applied.digest is None or applied.digest == tree.digest
            self.proposer.applied(txn.zxid)

    def state(self) -> list[object]:
        return [
            (
                tree.digest,
                tree.data_size_bytes,
                tree.last_zxid,
                tree.ephemerals,
                tree.ephemeral_count,
                sorted(tree.quotas.by_path),
                list(tree.to_snapshot().nodes),
                {path: (list(node.children or ()), node.digest) for path, node in tree.nodes.items()},
            )
            for tree in (self.leader, self.learner)
        ]


def request(write: tuple, session_id: int, odd_tail: bool, cxid: int) -> ForwardedRequest:
    op, body = write
    out = bytearray()
    body.encode_into(out)
    return ForwardedRequest(SessionId(session_id), cxid, op, bytes(out) + b"tail" * odd_tail)


@given(STEPS)
@settings(deadline=None, max_examples=150)
def test_fast_and_general_write_paths_give_equal_results(steps: list) -> None:
    sides = [Side(plain=True), Side(plain=False)]
    for side in sides:
        for number, (writes, session_id, odd_tail) in enumerate(steps):
            if writes:
                requests = [request(write, session_id, odd_tail, number) for write in writes]
                side.propose(requests, LinkId(7) if session_id == 2 else None)
            else:
                side.apply(session_id)
    assert [txn.encoded() for txn in sides[0].pending] == [txn.encoded() for txn in sides[1].pending]
    for side in sides:
        side.apply(len(side.pending))
    assert sides[0].state() == sides[1].state()


@pytest.mark.parametrize(
    ("write", "plain"),
    [
        (set_data("/a", b"1"), True),
        (set_data("/a", b"1", 0), True),
        (set_data("/a", b"1", 1), False),
        (set_data("/a", None), False),
        (set_data("/nowhere", b"1"), False),
        (set_data("/", b"1"), False),
        (create("/b", b"1", op=OpCode.CREATE), True),
        (create("/a/b", b"1", op=OpCode.CREATE), True),
        (create("/a", b"1", op=OpCode.CREATE), False),
        (create("/b/c", b"1", op=OpCode.CREATE), False),
        (create("/b", b"1"), False),
        (create("/b", b"1", CreateFlag.EPHEMERAL, op=OpCode.CREATE), False),
        (create("/b", b"1", 0, READABLE, OpCode.CREATE), False),
        (create("/zookeeper/b", b"1", op=OpCode.CREATE), False),
        (create("/..", b"1", op=OpCode.CREATE), False),
        (delete("/a"), False),
    ],
)
def test_only_plain_writes_use_the_fast_path(write: tuple, plain: bool) -> None:
    """Only plain writes use the fast path.

    The test calls the fast path directly, because a result does not show which path was used.
    """
    side = Side(plain=True)
    side.propose([request(create("/a", b"0", op=OpCode.CREATE), 1, False, 1)])
    short = side.proposer._plain
    assert short is not None
    made = short(5000, request(write, 1, False, 2), Zxid(9), LOCAL)
    assert (made is not None) == plain


@pytest.mark.parametrize("plain", [True, False])
def test_znode_with_a_proposed_child_is_not_empty(plain: bool) -> None:
    """A znode cannot be deleted while the creation of a child is proposed.

    Like PrepRequestProcessor, the proposer counts children that are proposed but not yet applied.
    """
    side = Side(plain=plain)
    writes = [
        create("/a", op=OpCode.CREATE),
        create("/a/b", op=OpCode.CREATE),
        delete("/a"),
        delete("/a/b"),
        delete("/a"),
    ]
    side.propose([request(write, 1, False, n) for n, write in enumerate(writes)])
    errors = [txn.body.err if txn.type == OpCode.ERROR else 0 for txn in side.pending]
    assert errors == [0, 0, ErrorCode.NOT_EMPTY, 0, 0]


def test_znode_with_an_empty_path_part_is_not_a_child_of_root() -> None:
    side = Side(plain=True)
    side.propose([request(create("//a", b"1", 0, op=OpCode.CREATE), 1, False, 5)])
    side.apply(1)
    assert (side.leader.children("/"), side.leader.stat("/")) == (["zookeeper"], DataTree().stat("/"))
    committed = Txn(SessionId(1), 1, Zxid(9), 1, OpCode.CREATE, CreateTxn("//a", b"", OPEN_ACL, False, 1))
    assert side.learner.apply(committed).error == ErrorCode.NO_NODE


@pytest.mark.parametrize("flags", [*CreateFlag, 7, -1])
def test_fast_and_general_write_path_agree_for_each_znode_type(flags: int) -> None:
    proposed = []
    for plain in (True, False):
        side = Side(plain=plain)
        side.propose([request(create("/a", b"1", flags, op=OpCode.CREATE), 1, False, 5)])
        proposed.append([txn.encoded() for txn in side.pending])
    assert proposed[0] == proposed[1]


def test_plain_transaction_equals_the_encoding_of_its_fields() -> None:
    side = Side(plain=True)
    side.propose([request(write, 1, True, 5) for write in (create("/a", b"1", op=OpCode.CREATE), set_data("/a", b""))])
    for txn in side.pending:
        again = Txn(txn.session_id, txn.cxid, txn.zxid, txn.time_ms, txn.type, txn.body, txn.digest)
        assert txn.encoded() == again.encoded()
        assert decode_plain(txn.encoded()) == txn
    side.apply(2)
    assert side.learner.digest == side.leader.digest


@given(
    path=st.sampled_from(["/", "/a", "/zookeeper", "/zookeeper/a", "/zookeepers/a", "/ä/日本", "/" + "x" * 300, ""]),
    data=st.sampled_from([b"", b"1", b"x" * 100]),
    creates=st.booleans(),
)
def test_decoded_transaction_has_the_digest_seed_of_its_znode(path: str, data: bytes, creates: bool) -> None:
    body = CreateTxn(path, data, OPEN_ACL, False, 1) if creates else SetDataTxn(path, data, 1)
    txn = Txn(SessionId(1), 1, Zxid(1), 1, OpCode.CREATE if creates else OpCode.SET_DATA, body, digest=5)
    read = Txn.decode(txn.encoded())
    assert read == txn and read.body == body
    assert read.seed in (None, digest_seed(path, data))


def test_tree_with_quotas_does_not_use_the_fast_write_path() -> None:
    side = Side(plain=True)
    limits = [create(f"{QUOTA}/a"), create(f"{QUOTA}/a/zookeeper_limits", b"count=1,bytes=-1", op=OpCode.CREATE)]
    side.propose([request(write, 1, False, 1) for write in (create("/a", op=OpCode.CREATE), *limits)])
    side.apply(3)
    side.propose([request(set_data("/a", b"1"), 1, False, 2)])
    assert side.leader.quotas.by_path
    assert side.leader.apply_plain(side.pending[0]) is None


def started() -> tuple[Ensemble, int, int]:
    ensemble = Ensemble(servers=2)
    first, second = ensemble.connect(server=0), ensemble.connect(server=1)
    assert ensemble.ask(first, create("/a", b"0")).err == 0
    ensemble.auto = False
    ensemble.take(first), ensemble.take(second)
    return ensemble, first, second


def test_replies_to_writes_sent_together_are_sent_together() -> None:
    ensemble, first, second = started()
    for client in (first, second):
        writes = [Request(10 + i, *set_data("/a", b"%d" % i)).encode() for i in range(3)]
        ensemble.message(client, Frames(writes))
    ensemble.commit_together()
    for client in (first, second):
        (message,) = ensemble.take(client)
        assert len(message) == 3 * (len(pack_int(0)) + 16 + 68)
        assert ensemble.services[client == second].clients.outstanding(client) == 0


def test_replies_of_one_commit_batch_reach_the_right_clients() -> None:
    ensemble, first, _ = started()
    other = ensemble.connect(server=0)
    ensemble.commit()
    ensemble.take(other)
    ensemble.auto = False
    for round_ in range(2):
        for client in (first, other):
            ensemble.message(client, Frames([Request(10 + round_, *set_data("/a", b"1")).encode()]))
    ensemble.commit_together()
    for client in (first, other):
        answers = b"".join(ensemble.take(client))
        size = len(pack_int(0)) + 16 + 68
        assert [answers[at + 4 : at + 8] for at in range(0, len(answers), size)] == [pack_int(10), pack_int(11)]
        assert ensemble.services[0].clients.outstanding(client) == 0


def test_session_is_owned_by_the_server_of_its_first_request() -> None:
    """A write that arrives through another server than the session's own gets SESSION_MOVED (SessionMovedException).

    A session belongs to the server that sent the first request for it.
    """
    side = Side(plain=False)
    made = ForwardedRequest(SessionId(5), 0, OpCode.CREATE_SESSION, CreateSessionTxn(9).encode())
    side.propose([made], LinkId(7))
    write = request(create("/s", b""), 5, False, 1)
    side.propose([write], LinkId(8))
    side.propose([write], LinkId(7))
    bodies = [txn.body for txn in side.pending]
    assert bodies[1] == ErrorTxn(ErrorCode.SESSION_MOVED) and not isinstance(bodies[2], ErrorTxn)


def test_persistent_znode_remains_after_its_session_ends() -> None:
    side = Side(plain=True)
    side.propose(
        [
            request(create("/a", b"", 0, OPEN_ACL, OpCode.CREATE), 1, False, 1),
            request(create("/e", b"", CreateFlag.EPHEMERAL, OPEN_ACL, OpCode.CREATE), 1, False, 2),
            ForwardedRequest(SessionId(1), 3, OpCode.CLOSE_SESSION, b""),
        ]
    )
    side.apply(3)
    assert "/a" in side.leader.nodes and "/e" not in side.leader.nodes
    assert side.leader.digest == side.learner.digest
