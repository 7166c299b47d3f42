"""Messages between clients and servers: requests, replies and credentials, as fuzz targets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tests.fuzz.choices import Choices, Target, pieces
from zabka.ensemble.auth.addresses import canonical_address, parse_network, within
from zabka.ensemble.auth.digest_md5 import DigestMd5Server, SaslError
from zabka.ensemble.auth.digest_md5_client import DigestMd5Client
from zabka.ensemble.auth.names import is_distinguished_name, subject_of
from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.auth.schemes import is_valid, matches
from zabka.ensemble.client.asyncio_connector import ClientConnection
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.jute import MalformedRecord, Reader, Record
from zabka.ensemble.records import (
    ACL,
    OPEN_ACL,
    REQUEST_BODIES,
    AddWatchRequest,
    AuthPacket,
    ConnectRequest,
    ConnectResponse,
    Create2Response,
    CreateRequest,
    CreateResponse,
    CreateTTLRequest,
    DeleteRequest,
    EmptyRequest,
    GetACLResponse,
    GetChildren2Response,
    GetDataResponse,
    MultiOp,
    MultiRequest,
    MultiResponse,
    MultiResult,
    OpCode,
    PathRequest,
    PathWatchRequest,
    ReconfigRequest,
    Reply,
    Request,
    SaslRequest,
    SetACLRequest,
    SetDataRequest,
    SetWatches,
    SetWatches2,
    Stat,
    StatResponse,
    WatcherEvent,
    WatchesRequest,
)
from zabka.ensemble.records import CheckVersionRequest as Check
from zabka.ensemble.tree.acl import allows, fixed_up

PASSWORD = bytes(range(16))
STAT = Stat(1, 2, 3, 4, 5, 6, 7, 0, 8, 9, 10)
DIGEST_ACL = (ACL(31, "digest", "ann:x0Q="), ACL(1, "ip", "10.0.0.0/8"), ACL(1, "world", "anyone"))

REQUESTS: list[tuple[OpCode, Record | MultiRequest]] = [
    (OpCode.CREATE, CreateRequest("/a", b"x", OPEN_ACL, 0)),
    (OpCode.CREATE, CreateRequest("/é", None, DIGEST_ACL, 1)),
    (OpCode.CREATE2, CreateRequest("/s-", b"", OPEN_ACL, 3)),
    (OpCode.CREATE_CONTAINER, CreateRequest("/c", b"", OPEN_ACL, 4)),
    (OpCode.CREATE_TTL, CreateTTLRequest("/t", b"t", OPEN_ACL, 5, 1000)),
    (OpCode.DELETE, DeleteRequest("/a", -1)),
    (OpCode.DELETE_CONTAINER, PathRequest("/c")),
    (OpCode.EXISTS, PathWatchRequest("/a", True)),
    (OpCode.GET_DATA, PathWatchRequest("/a", False)),
    (OpCode.SET_DATA, SetDataRequest("/a", b"yy", 0)),
    (OpCode.SET_DATA, SetDataRequest("/zookeeper/quota/a/zookeeper_limits", b"count=1,bytes=2", -1)),
    (OpCode.GET_ACL, PathRequest("/a")),
    (OpCode.SET_ACL, SetACLRequest("/a", DIGEST_ACL, -1)),
    (OpCode.GET_CHILDREN, PathWatchRequest("/", False)),
    (OpCode.GET_CHILDREN2, PathWatchRequest("/", True)),
    (OpCode.SYNC, PathRequest("/a")),
    (OpCode.PING, EmptyRequest()),
    (OpCode.RECONFIG, ReconfigRequest(b"server.4=127.0.0.1:1:2;3", b"2", None, -1)),
    (OpCode.RECONFIG, ReconfigRequest(None, None, b"server.1=h:1:2;3,server.2=i:1:2:observer;3", 5)),
    (OpCode.MULTI, MultiRequest([MultiOp(OpCode.CREATE, CreateRequest("/m", b"", OPEN_ACL, 0)),
                                 MultiOp(OpCode.CHECK, Check("/m", 0)),
                                 MultiOp(OpCode.SET_DATA, SetDataRequest("/m", b"1", 0)),
                                 MultiOp(OpCode.DELETE, DeleteRequest("/m", 1))])),
    (OpCode.MULTI, MultiRequest([])),
    (OpCode.MULTI_READ, MultiRequest([MultiOp(OpCode.GET_DATA, PathWatchRequest("/a", False)),
                                      MultiOp(OpCode.GET_CHILDREN, PathWatchRequest("/", False))])),
    (OpCode.AUTH, AuthPacket(0, "digest", b"ann:secret")),
    (OpCode.SASL, SaslRequest(b"")),
    (OpCode.SET_WATCHES, SetWatches(1, ["/a"], ["/b"], ["/"])),
    (OpCode.SET_WATCHES2, SetWatches2(1, ["/a"], ["/b"], ["/"], ["/p"], ["/r"])),
    (OpCode.ADD_WATCH, AddWatchRequest("/a", 1)),
    (OpCode.CHECK_WATCHES, WatchesRequest("/a", 3)),
    (OpCode.REMOVE_WATCHES, WatchesRequest("/a", 5)),
    (OpCode.GET_EPHEMERALS, PathRequest("/")),
    (OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest("/")),
    (OpCode.WHO_AM_I, EmptyRequest()),
    (OpCode.CLOSE_SESSION, EmptyRequest()),
]  # fmt: skip


def request_frames() -> list[bytes]:
    """Return at least one valid frame for each operation."""
    return [Request(-4 if op == OpCode.AUTH else 1 + n, op, body).encode() for n, (op, body) in enumerate(REQUESTS)]


def connect_frames() -> list[bytes]:
    return [
        ConnectRequest(0, 0, 4000, 0, PASSWORD, read_only).encode() for read_only in (None, False, True)
    ] + [ConnectRequest(0, 1 << 40, -1, 7, None, False).encode()]  # fmt: skip


def outcome(decode: Callable[[], object]) -> object:
    """Return a decoder's result, or MalformedRecord if it raises that."""
    try:
        return decode()
    except MalformedRecord:
        return MalformedRecord


def request(data: bytes) -> None:
    """Decode a frame. The result is a request or a request with an error, or the frame is rejected as malformed.

    A decoded request encodes to the same bytes. The hand-written codecs and the generic codec return the same results.
    """
    try:
        first = Request.decode(data)
    except MalformedRecord:
        assert len(data) < 8
        return
    if first.body is not None:
        assert first.problem == ErrorCode.OK
        again = Request.decode(first.encode())
        assert again == first and again.encode() == first.encode()
    body = data[8:]
    kind = REQUEST_BODIES.get(first.op)
    if kind in (CreateRequest, SetDataRequest):
        general = outcome(lambda: kind(*[codec.read(reader) for reader in [Reader(body)] for codec in kind.layout]))  # type: ignore[union-attr]
        assert outcome(lambda: kind.decode(body)) == general  # type: ignore[union-attr]
        assert outcome(lambda: kind.read_from(Reader(body))) == general


def connect(data: bytes) -> None:
    """Decode both forms of ConnectRequest, or reject the bytes as malformed."""
    found = outcome(lambda: ConnectRequest.decode(data))
    if isinstance(found, ConnectRequest):
        assert ConnectRequest.decode(found.encode()) == found


class _Recorder:
    """Session side of a connection. It records messages, and stops when the connection ends."""

    def __init__(self) -> None:
        self.received: list[object] = []

    def on_connected(self) -> None: ...

    def on_message(self, message: object) -> None:
        self.received.append(message)

    def on_watch(self, event: object, zxid: int) -> None:
        self.received.append((event, zxid))

    def on_disconnected(self, reason: str) -> None:
        self.received.append("over")


def replies(data: bytes) -> None:
    """Decode a server's bytes, split at any position: the client gets replies, or ends the connection."""
    choices = Choices(data[:16])
    ops = [choices.one(REQUESTS)[0] for _ in range(6)]
    stream = data[16:]
    received = []
    for cuts in ([stream], pieces(stream, choices)):
        end = _Recorder()
        connection = ClientConnection(end)
        connection._ops.extend(ops)
        for piece in cuts:
            connection.data_received(piece)
            assert len(connection._in) <= len(stream)
        received.append(end.received)
    assert received[0] == received[1]


def reply_streams() -> list[bytes]:
    def framed(*messages: ConnectResponse | Reply) -> bytes:
        return b"".join(len(raw).to_bytes(4, "big") + raw for raw in (message.encode() for message in messages))

    hello = ConnectResponse(0, 4000, 7, PASSWORD, False)
    answers = [
        CreateResponse("/a"), Create2Response("/a", STAT), StatResponse(STAT), GetDataResponse(b"x", STAT),
        GetDataResponse(None, STAT), GetACLResponse(DIGEST_ACL, STAT), GetChildren2Response(["a", "b"], STAT),
        MultiResponse([MultiResult(OpCode.CREATE, 0, CreateResponse("/a")), MultiResult(OpCode.ERROR, -101, None)]),
    ]  # fmt: skip
    seeds = []
    for answer in answers:
        # The first bytes of an input select the requests. With one seed per request, each reply occurs once as the
        # reply to its own request.
        for op in range(len(REQUESTS)):
            seeds.append(bytes([op] * 6 + [0] * 10) + framed(hello, Reply(1, 5, 0, answer)))
    watch = Reply(-1, -1, 0, WatcherEvent(3, 3, "/a"))
    return [bytes(16) + framed(hello, watch, Reply(-2, 5, 0), Reply(1, 5, -101)), *seeds]


USERS = {"ann": "secret", "é": "p\\w"}


def sasl(data: bytes) -> None:
    """Fuzz both sides of digest authentication.

    The server gets the input as a client's response, and must authenticate a known user or reject the response. The
    client gets the input as a challenge, and must respond to the challenge or reject it.
    """
    server = DigestMd5Server(USERS, "nonce")
    with suppress(SaslError):
        user, answer = server.verify(data)
        assert user in USERS and answer.startswith(b"rspauth=")
    client = DigestMd5Client("ann", "secret", "cnonce")
    with suppress(SaslError):
        client.respond(data)
        client.check(data)


def sasl_tokens() -> list[bytes]:
    client = DigestMd5Client("ann", "secret", "cnonce")
    challenge = DigestMd5Server(USERS, "nonce").challenge()
    return [b"", challenge, client.respond(challenge), b'a="b\\"c",d=e , f=""']


def credentials(data: bytes) -> None:
    """Check valid and invalid ACL ids against identities and certificates, both matching and other ones."""
    choices = Choices(data[:4])
    text = data[4:].decode("utf-8", "surrogatepass" if choices.below(2) else "replace") if _is_text(data[4:]) else ""
    scheme = choices.one(("digest", "ip", "x509", "sasl", "world", "auth", text))
    proved, _, expected = text.partition("|")
    valid = is_valid(scheme, expected)
    if valid:
        matches(scheme, proved, expected)
    parse_network(expected)
    within(canonical_address(proved), expected)
    is_distinguished_name(expected)
    schemes = frozenset({"digest", "ip", "x509", "sasl"})
    auth = AuthPolicy(schemes=schemes, super_digest="super:x").authenticate(scheme, data[4:], (("ip", "1.2.3.4"),))
    acl = fixed_up([ACL(31, scheme, expected), ACL(choices.below(64), "auth", "")], (*auth, ("ip", "::1")), schemes)
    if acl is not None:
        allows(acl, 1, auth)


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def certificate(data: bytes) -> None:
    """Read the subject of a DER certificate, or reject it as malformed."""
    with suppress(MalformedRecord):
        assert isinstance(subject_of(data), str)


CERTIFICATE = bytes.fromhex(
    "3081a13081a0a003020102020101300a06082a8648ce3d0403023000301e170d3235303130313030303030305a170d333530313031303030"
    "3030305a3042310b3009060355040613024154310c300a060355040a0c0361c3a93125302306035504031e1c00680065006c006c006f002c"
    "002000200077006f0072006c00643000"
)

CLIENT_TARGETS: dict[str, Target] = {
    "request": Target(request, request_frames),
    "connect": Target(connect, connect_frames),
    "replies": Target(replies, reply_streams),
    "sasl": Target(sasl, sasl_tokens),
    "credentials": Target(
        credentials,
        lambda: [
            bytes([0, n, 0, 0]) + text.encode()
            for n, text in enumerate(
                ["|ann:x0Q=", "10.1.2.3|10.0.0.0/8", "::1|fe80::/10", "CN=a,O=b|CN=\"x\",OU=#0500+L=z", "super|a/b@C"]
            )
        ],
    ),
    "certificate": Target(certificate, lambda: [CERTIFICATE]),
}  # fmt: skip
