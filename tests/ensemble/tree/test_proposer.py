"""The proposer converts requests to transactions. It uses the state after all proposals so far."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ensemble.tree.tree_driver import CLOSE, create, delete, multi, set_acl, set_data
from zabka.ensemble.auth.schemes import digest_of
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import LinkId, SessionId
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ACL, OPEN_ACL, CheckVersionRequest, CreateTTLRequest, MultiOp, MultiRequest, OpCode
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.proposer import Proposer
from zabka.ensemble.tree.sessions import SessionTracker
from zabka.ensemble.txn import CloseSessionTxn, CreateSessionTxn, ErrorTxn, MultiTxn, SetACLTxn, SetDataTxn
from zabka.ensemble.zab.messages import ForwardedRequest

NOW = Instant(1000, 5000)
ANN = ("digest", digest_of("ann:secret"))
READ_ONLY = (ACL(1, "world", "anyone"),)
ALL_BUT = (ACL(31 & ~4, "world", "anyone"),)


def check(path, version=-1):
    return OpCode.CHECK, CheckVersionRequest(path, version)


class Bench:
    """A proposer whose transactions are applied only by `apply`."""

    def __init__(self, sessions=(1, 2)):
        self.tree = DataTree()
        tracker = SessionTracker(100, NOW)
        self.proposer = Proposer(self.tree, tracker)
        self.zxid = 0
        self.pending = []
        for session_id in sessions:
            self.raw(OpCode.CREATE_SESSION, CreateSessionTxn(4000).encode(), session_id)
        self.apply()

    def raw(self, op, body, session_id=1, auth=(), origin=None):
        self.zxid += 1
        request = ForwardedRequest(SessionId(session_id), self.zxid, op, body, auth)
        txn = self.proposer.prepare(NOW, request, self.zxid, origin)
        assert (txn.zxid, txn.cxid, txn.session_id) == (self.zxid, self.zxid, session_id)
        self.pending.append(txn)
        return txn

    def ask(self, request, session_id=1, auth=(), origin=None):
        op, body = request
        out = bytearray()
        body.encode_into(out)
        return self.raw(op, bytes(out), session_id, auth, origin)

    def error(self, request, session_id=1, auth=(), origin=None):
        """Return the error code with which a request is rejected, or 0 if it becomes a transaction."""
        body = self.ask(request, session_id, auth, origin).body
        return ErrorCode(body.err) if isinstance(body, ErrorTxn) else 0

    def apply(self, count=None):
        for _ in range(len(self.pending) if count is None else count):
            txn = self.pending.pop(0)
            applied = self.tree.apply(txn)
            if txn.type not in (OpCode.ERROR, OpCode.MULTI):
                assert applied.error == 0, f"{txn} failed when it was applied: {applied}"
            assert txn.digest in (None, self.tree.digest)
            self.proposer.applied(txn.zxid)


def grown():
    bench = Bench()
    for request in (
        create("/a", b"x"), create("/a/b"), create("/e", b"", 1), set_data("/a", b"y"), create("/ro", acl=READ_ONLY),
        create("/nocreate", acl=ALL_BUT),
    ):  # fmt: skip
        assert bench.error(request) == 0
    return bench


E = ErrorCode
REFUSED = [
    (create("/a"), E.NODE_EXISTS),
    (create("/"), E.NODE_EXISTS),
    (create("/no/x"), E.NO_NODE),
    (create("/e/x"), E.NO_CHILDREN_FOR_EPHEMERALS),
    (create("x"), E.BAD_ARGUMENTS),
    (create(""), E.BAD_ARGUMENTS),
    (create("/a/"), E.BAD_ARGUMENTS),
    (create("/a/../b"), E.NO_NODE),
    (create("/a/."), E.BAD_ARGUMENTS),
    (create("/a\0"), E.BAD_ARGUMENTS),
    (create("/x", b"", 9), E.BAD_ARGUMENTS),
    (create("/x", b"", 5), E.UNIMPLEMENTED),
    (create("/x", acl=()), E.INVALID_ACL),
    (create("/no/x", acl=()), E.INVALID_ACL),
    (create("/x", acl=(ACL(31, "auth", ""),)), E.INVALID_ACL),
    (create("/x", acl=(ACL(31, "digest", "u"),)), E.INVALID_ACL),
    (create("/x", acl=(ACL(31, "world", "me"),)), E.INVALID_ACL),
    (create("/x", acl=(ACL(31, "odd", "x"),)), E.INVALID_ACL),
    (create("/nocreate/x"), E.NO_AUTH),
    (create("/ro/x"), E.NO_AUTH),
    (delete("/a"), E.NOT_EMPTY),
    (delete("/no"), E.NO_NODE),
    (delete("/no/x"), E.NO_NODE),
    (delete("no"), E.BAD_ARGUMENTS),
    (delete("/"), E.BAD_ARGUMENTS),
    (delete("/zookeeper"), E.BAD_ARGUMENTS),
    (delete("/zookeeper/quota"), E.BAD_ARGUMENTS),
    (delete("/zookeeper/config"), E.BAD_ARGUMENTS),
    (delete("/a", 0), E.BAD_VERSION),
    (delete("/ro/x"), E.NO_AUTH),
    (set_data("/no"), E.NO_NODE),
    (set_data("no"), E.BAD_ARGUMENTS),
    (set_data("/a", b"", 0), E.BAD_VERSION),
    (set_data("/ro", b""), E.NO_AUTH),
    (set_data("/zookeeper/config", b""), E.NO_AUTH),
    (set_acl("/no", READ_ONLY), E.NO_NODE),
    (set_acl("/a", ()), E.INVALID_ACL),
    (set_acl("/a", READ_ONLY, 3), E.BAD_VERSION),
    (set_acl("/ro", READ_ONLY), E.NO_AUTH),
    (set_acl("a", READ_ONLY), E.BAD_ARGUMENTS),
    ((OpCode.CREATE_TTL, CreateTTLRequest("/t", b"", READ_ONLY, 5, 1000)), E.UNIMPLEMENTED),
]


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize(("request_", "error"), REFUSED)
def test_rejected_request_becomes_an_error_transaction(request_, error, applied):
    bench = grown()
    if applied:
        bench.apply()
    digest = bench.proposer.outstanding.digest
    assert bench.error(request_) == error
    assert bench.proposer.outstanding.digest == digest
    assert bench.pending[-1].type == OpCode.ERROR and bench.pending[-1].digest is None
    bench.apply()


@pytest.mark.parametrize("op", [OpCode.CREATE, OpCode.DELETE, OpCode.MULTI, OpCode.SET_DATA, OpCode.SET_ACL])
def test_request_with_an_unreadable_body_is_a_marshalling_error(op):
    bench = Bench()
    assert bench.raw(op, b"\0\0").body == ErrorTxn(E.MARSHALLING_ERROR)
    assert bench.raw(OpCode.RECONFIG, b"").body == ErrorTxn(E.RECONFIG_DISABLED)
    assert bench.raw(999, b"").body == ErrorTxn(E.UNIMPLEMENTED)


def test_sequence_numbers_count_created_but_not_deleted_children():
    bench = Bench()
    bench.ask(create("/q"))
    paths = [bench.ask(create("/q/n-", b"", 2)).body.path for _ in range(2)]
    bench.ask(delete(paths[0]))
    bench.ask(create("/q/plain"))
    paths.append(bench.ask(create("/q/other", b"", 3)).body.path)
    bench.apply()
    paths.append(bench.ask(create("/q/", b"", 2)).body.path)
    assert paths == ["/q/n-0000000000", "/q/n-0000000001", "/q/other0000000003", "/q/0000000004"]


def test_transactions_contain_the_new_values():
    bench = grown()
    made = bench.ask(create("/a/c", None, 1)).body
    assert (made.path, made.data, made.ephemeral, made.parent_cversion) == ("/a/c", None, True, 2)
    assert bench.ask(set_data("/a", b"z", 1)).body == SetDataTxn("/a", b"z", 2)
    assert bench.ask(set_acl("/a", READ_ONLY)).body == SetACLTxn("/a", READ_ONLY, 1)
    assert bench.error(set_acl("/a", READ_ONLY)) == E.NO_AUTH, "the new list counts at once"


def test_duplicate_acls_are_removed_and_auth_is_expanded():
    bench = Bench()
    twice = (ACL(1, "world", "anyone"), ACL(1, "world", "anyone"), ACL(31, "auth", ""))
    assert bench.ask(create("/a", acl=twice), auth=(ANN,)).body.acl == (twice[0], ACL(31, *ANN))
    assert bench.error(set_data("/a", b"")) == E.NO_AUTH
    assert bench.error(set_data("/a", b""), auth=(ANN,)) == 0


def test_write_is_checked_against_writes_in_flight():
    bench = Bench()
    assert bench.error(create("/a")) == 0
    assert bench.error(set_data("/a", b"1", 0)) == 0
    assert bench.error(set_data("/a", b"2", 0)) == E.BAD_VERSION
    assert bench.error(create("/a/b")) == 0
    assert bench.error(delete("/a")) == E.NOT_EMPTY
    bench.apply(3)
    assert bench.error(delete("/a/b")) == 0
    assert bench.error(delete("/a", 1)) == 0
    assert bench.error(create("/a/c")) == E.NO_NODE
    assert bench.error(create("/a", b"", 1)) == 0
    bench.apply()
    assert len(bench.proposer.outstanding) == 0


def test_failed_multi_does_not_change_the_proposed_state():
    bench = grown()
    digest = bench.proposer.outstanding.digest
    ops = multi(
        create("/m"),
        create("/m/s", b"", 2),
        set_data("/a", b"!", 1),
        delete("/a/b"),
        delete("/a"),
        create("/a", b"", 1),
        create("/a", b""),
        delete("/zz"),
    )
    txn = bench.ask(ops)
    assert isinstance(txn.body, MultiTxn)
    errors = [sub.body().err for sub in txn.body.txns if sub.type == OpCode.ERROR]
    assert errors == [E.NODE_EXISTS, E.RUNTIME_INCONSISTENCY] and len(txn.body.txns) == 8
    assert bench.proposer.outstanding.digest == digest == txn.digest
    assert bench.error(delete("/m")) == E.NO_NODE
    assert bench.error(set_data("/a", b"", 1)) == 0
    assert bench.ask(create("/a/s", b"", 2)).body.path == "/a/s0000000001", "the counter went back, too"
    assert bench.ask(CLOSE).body == CloseSessionTxn(["/e"])
    bench.apply()


def test_multi_checks_versions_after_its_own_changes():
    bench = grown()
    txn = bench.ask(multi(check("/a", 1), set_data("/a", b"", 1), check("/a", 2), check("/a", 1)))
    assert [sub.type for sub in txn.body.txns] == [OpCode.CHECK, OpCode.SET_DATA, OpCode.CHECK, OpCode.ERROR]
    assert bench.ask((OpCode.MULTI, MultiRequest([]))).body == MultiTxn([])
    assert bench.ask((OpCode.MULTI, MultiRequest([MultiOp(*check("/no"))]))).body.txns[0].type == OpCode.ERROR
    bench.apply()


def test_failed_multi_keeps_an_ephemeral_proposed_before_it():
    bench = Bench()
    bench.ask(create("/e", b"", 1))
    bench.ask(multi(delete("/e"), create("/e", b"", 1), create("/no/x")))
    assert bench.ask(CLOSE).body == CloseSessionTxn(["/e"])
    bench.apply()
    assert not bench.tree.ephemerals and len(bench.proposer.outstanding) == 0


def test_closing_a_session_deletes_its_proposed_ephemerals():
    bench = Bench()
    for path in ("/applied", "/deleted", "/passed-on"):
        bench.ask(create(path, b"", 1))
    bench.apply()
    bench.ask(create("/proposed", b"", 1))
    bench.ask(delete("/deleted"))
    bench.ask(delete("/passed-on"))
    bench.ask(create("/passed-on", b"", 1), session_id=2)
    bench.ask(create("/other", b"", 1), session_id=2)
    assert bench.ask(CLOSE).body == CloseSessionTxn(["/applied", "/proposed"])
    assert bench.error(create("/late")) == E.SESSION_EXPIRED
    assert bench.ask(CLOSE).body == CloseSessionTxn([])
    assert bench.error(create("/applied"), session_id=2) == 0
    bench.apply()
    assert bench.tree.children("/") == ["zookeeper", "passed-on", "other", "applied"]


def test_parent_can_be_deleted_immediately_after_session_close():
    bench = Bench()
    bench.ask(create("/p"), session_id=2)
    bench.ask(create("/p/e", b"", 1))
    bench.ask(CLOSE)
    assert bench.error(delete("/p"), session_id=2) == 0
    bench.apply()


def test_requests_of_unknown_and_moved_sessions_are_rejected():
    bench = Bench()
    here, there = LinkId(3), LinkId(4)
    assert bench.error(create("/a"), session_id=99) == E.SESSION_EXPIRED
    bench.proposer.tracker.set_owner(1, here)
    assert bench.error(create("/a"), origin=there) == E.SESSION_MOVED
    assert bench.error(create("/a")) == E.SESSION_MOVED
    assert bench.error(create("/a"), origin=here) == 0
    moved = bench.ask(multi(create("/b"), create("/c")), origin=there).body.txns
    assert [sub.body().err for sub in moved] == [E.SESSION_MOVED, E.RUNTIME_INCONSISTENCY]


def test_invalid_create_flags_are_checked_before_session_owner():
    bench = Bench()
    elsewhere = LinkId(4)
    unknown = 99
    assert bench.error(create("/a", flags=unknown), origin=elsewhere) == E.BAD_ARGUMENTS
    ttl = OpCode.CREATE_TTL, CreateTTLRequest("/a", b"", OPEN_ACL, unknown, 9)
    refused = bench.ask(multi(ttl, create("/b")), origin=elsewhere).body.txns
    assert [sub.body().err for sub in refused] == [E.BAD_ARGUMENTS, E.RUNTIME_INCONSISTENCY]
    assert bench.error(create("/a", acl=()), origin=elsewhere) == E.SESSION_MOVED, "other errors are checked later"


# -- a proposer with many proposals in flight decides as one that applies each proposal at once ----------

PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/1", "/a/x/2", "/zookeeper/n"])
VERSIONS = st.sampled_from([-1, -1, 0, 1, 2])
SINGLE = st.one_of(
    st.builds(create, PATHS, st.binary(max_size=2), st.sampled_from([0, 0, 1, 2, 3])),
    st.builds(delete, PATHS, VERSIONS),
    st.builds(set_data, PATHS, st.none() | st.binary(max_size=3), VERSIONS),
    st.builds(set_acl, PATHS, st.sampled_from([READ_ONLY, ALL_BUT, (ACL(31, "world", "anyone"),)]), VERSIONS),
)
CHECKS = st.builds(check, PATHS, VERSIONS)
STEPS = st.lists(
    st.tuples(
        st.one_of(
            SINGLE,
            SINGLE,
            st.lists(SINGLE.filter(lambda r: r[0] != OpCode.SET_ACL) | CHECKS, max_size=5).map(lambda r: multi(*r)),
            st.just(CLOSE),
            st.just((OpCode.CREATE_SESSION, CreateSessionTxn(4000))),
        ),
        st.sampled_from([1, 2]),
        st.integers(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_delayed_commits_do_not_change_the_proposed_transactions(steps):
    ahead, at_once = Bench(), Bench()
    for request, session_id, commits in steps:
        proposed = ahead.ask(request, session_id)
        applied = at_once.ask(request, session_id)
        assert proposed.encoded() == applied.encoded()
        at_once.apply()
        ahead.apply(min(commits, len(ahead.pending)))
    ahead.apply()
    assert ahead.tree.to_snapshot() == at_once.tree.to_snapshot()
    assert len(ahead.proposer.outstanding) == 0 and ahead.proposer.outstanding.digest == ahead.tree.digest
    outstanding = ahead.proposer.outstanding
    assert not outstanding._records and not outstanding._created


@settings(max_examples=100, deadline=None)
@given(STEPS, st.integers(0, 60), st.integers(0, 60))
def test_random_histories_can_be_replayed_over_later_snapshots(steps, held, start):
    bench = Bench()
    for request, session_id, _ in steps:
        bench.ask(request, session_id)
    txns = list(bench.pending)
    bench.apply()
    held = min(held, len(txns))
    partial = Bench()
    for txn in txns[:held]:
        partial.tree.apply(txn)
    replayed = DataTree.from_snapshot(partial.tree.to_snapshot())
    for txn in txns[min(start, held) :]:
        replayed.apply(txn)
    expected = {image.path: image for image in bench.tree.to_snapshot().nodes}
    assert {image.path: image for image in replayed.to_snapshot().nodes} == expected
    assert (replayed.digest, replayed.ephemerals, replayed.sessions) == (
        bench.tree.digest, bench.tree.ephemerals, bench.tree.sessions,
    )  # fmt: skip
