"""multiRead, getEphemerals, getAllChildrenNumber, whoAmI, and operations that clients cannot send.

All results are as in ZooKeeper 3.9.5.
"""

import random

import pytest

from tests.ensemble.tree.tree_driver import Ensemble, children, create, exists, get, set_data
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import (
    ACL,
    AuthPacket,
    CheckVersionRequest,
    ClientInfo,
    EmptyRequest,
    GetAllChildrenNumberResponse,
    GetChildrenResponse,
    GetDataResponse,
    GetEphemeralsResponse,
    MultiOp,
    MultiReadRequest,
    MultiResponse,
    OpCode,
    PathRequest,
    PathWatchRequest,
    Reply,
    Request,
    WhoAmIResponse,
)

ANN = (OpCode.AUTH, AuthPacket(0, "digest", b"ann:secret"))
MINE = (ACL(31, "auth", ""),)
WHO_AM_I = (OpCode.WHO_AM_I, EmptyRequest())


def data_of(path, watch=False):
    return MultiOp(OpCode.GET_DATA, PathWatchRequest(path, watch))


def children_of(path):
    return MultiOp(OpCode.GET_CHILDREN, PathWatchRequest(path, False))


def multi_read(*ops):
    return OpCode.MULTI_READ, MultiReadRequest(list(ops))


def ephemerals(prefix):
    return OpCode.GET_EPHEMERALS, PathRequest(prefix)


def below(path):
    return OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest(path)


def family():
    """Return an ensemble with /a, /a/b, /a/c and /ab, and two sessions. The second cannot read /a/private."""
    ensemble = Ensemble()
    ann, bob = ensemble.connect(), ensemble.connect()
    ensemble.send(ann, ANN, xid=-4)
    for path in ("/a", "/a/b", "/a/c", "/ab"):
        ensemble.ask(ann, create(path, path.encode()))
    ensemble.ask(ann, create("/a/private", b"", acl=MINE))
    ensemble.take(ann)
    return ensemble, ann, bob


# -- multiRead ---------------------------------------------------------------------------------------------------------


def test_each_read_of_a_multi_read_has_its_own_result():
    ensemble, _, bob = family()
    reply = ensemble.ask(bob, multi_read(data_of("/a"), data_of("/no"), children_of("/a"), data_of("/a/private")))
    assert reply.err == 0 and reply.zxid == ensemble.zxid
    first, second, third, fourth = reply.body.results
    assert first == (OpCode.GET_DATA, 0, GetDataResponse(b"/a", ensemble.services[0].tree.stat("/a")))
    assert second == (OpCode.ERROR, ErrorCode.NO_NODE, None)
    assert third == (OpCode.GET_CHILDREN, 0, GetChildrenResponse(["b", "c", "private"]))
    assert fourth == (OpCode.ERROR, ErrorCode.NO_AUTH, None)


def test_multi_read_sets_no_watch():
    ensemble, _, bob = family()
    ensemble.ask(bob, multi_read(data_of("/a", watch=True)))
    assert len(ensemble.services[0].watches) == 0


def test_empty_multi_read_returns_an_empty_reply():
    ensemble, _, bob = family()
    assert ensemble.ask(bob, multi_read()) == Reply(1, ensemble.zxid, 0, MultiResponse([]))


NOT_READS = [
    MultiOp(OpCode.CHECK, CheckVersionRequest("/a", -1)),
    MultiOp(OpCode.GET_CHILDREN2, PathWatchRequest("/a", False)),
    MultiOp(OpCode.EXISTS, PathWatchRequest("/a", False)),
]


@pytest.mark.parametrize("op", NOT_READS)
def test_multi_read_of_other_ops_is_a_marshalling_error(op):
    ensemble, _, bob = family()
    assert ensemble.ask(bob, multi_read(data_of("/a"), op)).err == ErrorCode.MARSHALLING_ERROR
    assert bob not in ensemble.closed


def test_read_in_a_multi_is_a_marshalling_error():
    ensemble, _, bob = family()
    frame = Request(1, OpCode.MULTI, MultiReadRequest([data_of("/a")])).encode()
    ensemble.message(bob, Request.decode(frame))
    assert ensemble.take(bob)[-1].err == ErrorCode.MARSHALLING_ERROR


def test_multi_read_waits_for_earlier_writes_of_its_session():
    ensemble = Ensemble(auto=False)
    client = ensemble.connect()
    ensemble.commit()
    ensemble.take(client)
    ensemble.send(client, create("/a", b"new"))
    ensemble.send(client, multi_read(data_of("/a")))
    assert ensemble.take(client) == []
    ensemble.commit()
    assert ensemble.take(client)[-1].body.results[0].body.data == b"new"


# -- getEphemerals -----------------------------------------------------------------------------------------------------


def test_get_ephemerals_compares_prefixes_as_strings():
    ensemble, ann, bob = family()
    for path in ("/e", "/a/e1", "/a/e2", "/abc"):
        ensemble.ask(ann, create(path, b"", 1))
    ensemble.ask(bob, create("/a/bobs", b"", 1))
    everything = ["/a/e1", "/a/e2", "/abc", "/e"]
    for prefix, expected in (
        ("/", everything), ("", everything), (" / ", everything), ("/a/", ["/a/e1", "/a/e2"]),
        ("/a", ["/a/e1", "/a/e2", "/abc"]), ("/a/e1", ["/a/e1"]), ("/zz", []),
    ):  # fmt: skip
        assert ensemble.ask(ann, ephemerals(prefix)).body == GetEphemeralsResponse(expected), prefix
    assert ensemble.ask(bob, ephemerals("/")).body.ephemerals == ["/a/bobs"]
    ensemble.hang_up(ann)
    stranger = ensemble.connect()
    assert ensemble.ask(stranger, ephemerals("/")).body.ephemerals == []


# -- getAllChildrenNumber ----------------------------------------------------------------------------------------------


def test_all_children_number_counts_all_descendants():
    ensemble, _, bob = family()
    system = 3  # /zookeeper, its quota and its config
    for path, expected in (("/", 5 + system), ("/a", 3), ("/a/b", 0), ("/ab", 0), ("/zookeeper", 2)):
        assert ensemble.ask(bob, below(path)).body == GetAllChildrenNumberResponse(expected), path
    assert ensemble.ask(bob, below("/no")).err == ErrorCode.NO_NODE
    assert ensemble.ask(bob, below("/a/private")).err == ErrorCode.NO_AUTH


# -- whoAmI ------------------------------------------------------------------------------------------------------------


def test_who_am_i_returns_the_user_without_the_hash():
    ensemble, ann, bob = family()
    assert ensemble.ask(ann, WHO_AM_I).body == WhoAmIResponse([ClientInfo("digest", "ann")])
    assert ensemble.ask(bob, WHO_AM_I).body == WhoAmIResponse([])


# -- ops that clients cannot send --------------------------------------------------------------------------------------

NOT_OFFERED = [OpCode.NOTIFICATION, OpCode.ERROR, OpCode.CREATE_SESSION, OpCode.CHECK, 10, 23, 99, 108, -100]


@pytest.mark.parametrize("op", NOT_OFFERED)
def test_unsupported_op_gets_unimplemented_and_a_disconnect(op):
    """An operation that clients cannot send gets UNIMPLEMENTED and a disconnect.

    ZooKeeper 3.9.5 does the same, except that it accepts createSession from a client. `check` is only valid in multis.
    """
    ensemble, _, bob = family()
    ensemble.message(bob, Request.decode((7).to_bytes(4, "big") + op.to_bytes(4, "big", signed=True) + b"\0\0\0\2/a"))
    assert ensemble.take(bob)[-1] == Reply(7, -1, ErrorCode.UNIMPLEMENTED)
    assert bob in ensemble.closed


@pytest.mark.parametrize("op", [OpCode.CREATE, OpCode.SET_DATA, OpCode.DELETE, OpCode.SET_ACL, OpCode.CREATE_TTL])
def test_undecodable_write_fails_and_creates_no_txn(op):
    """A write request that cannot be decoded gets MARSHALLING_ERROR, and later writes succeed.

    A standalone ZooKeeper server does the same. An ensemble of three commits no transaction after such a create.
    """
    ensemble, ann, bob = family()
    ensemble.message(bob, Request.decode((7).to_bytes(4, "big") + op.to_bytes(4, "big") + b"\0\0\0\5ab"))
    assert ensemble.take(bob)[-1].err == ErrorCode.MARSHALLING_ERROR
    assert ensemble.ask(bob, set_data("/a")).err == ensemble.ask(ann, create("/later")).err == 0


def test_get_ephemerals_and_other_reads_can_be_interleaved():
    ensemble, _, bob = family()
    for request in (get("/a"), WHO_AM_I, children("/a"), below("/"), exists("/a"), multi_read(data_of("/a"))):
        assert ensemble.ask(bob, request).err == 0


@pytest.mark.parametrize("op", [17, 18, 19, 20, 21, 22, 101, 103, 104, 105, 106, 107])
def test_random_request_body_gets_a_reply_with_a_known_error(op):
    rng = random.Random(op)
    ensemble, _, bob = family()
    for _ in range(200):
        body = bytes(rng.choice((0, 0, 0, 1, 2, 47, 97, 255, rng.randrange(256))) for _ in range(rng.randrange(40)))
        ensemble.message(bob, Request.decode((7).to_bytes(4, "big") + op.to_bytes(4, "big") + body))
        reply = ensemble.take(bob)[-1]
        assert reply.xid == 7 and reply.err in (0, *ErrorCode)
        reply.encode()
    assert bob not in ensemble.closed
