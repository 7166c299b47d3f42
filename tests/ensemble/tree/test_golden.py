"""The log that a real ZooKeeper 3.9.5 wrote for a small session, compared byte for byte: types, versions and
digests.
"""

from tests.ensemble.tree.tree_driver import CLOSE, create, delete, multi, set_acl, set_data
from zabka.ensemble.ids import SessionId
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ACL, OpCode
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.proposer import Proposer
from zabka.ensemble.tree.sessions import SessionTracker
from zabka.ensemble.txn import CreateSessionTxn, Txn
from zabka.ensemble.zab.messages import ForwardedRequest

SESSION = SessionId(0x0100002B3EFF0000)
LOG = [
    "0100002b3eff0000000000000000000000000001000001a1fbd2e6b3fffffff600002710000000020000000051c6d660",
    "0100002b3eff0000000000010000000000000002000001a1fbd2e6bf0000000f000000022f610000000178000000010000001f000000"
    "05776f726c6400000006616e796f6e6500000000010000000200000000c4bdb518",
    "0100002b3eff0000000000020000000000000003000001a1fbd2e6c50000000f0000000f2f612f732d30303030303030303030000000"
    "00000000010000001f00000005776f726c6400000006616e796f6e65010000000100000002000000013f943555",
    "0100002b3eff0000000000030000000000000004000001a1fbd2e6c800000005000000022f61ffffffff000000010000000200000001"
    "6792a0f7",
    "0100002b3eff0000000000040000000000000005000001a1fbd2e6caffffffffffffff99",
    "0100002b3eff0000000000050000000000000006000001a1fbd2e6cf0000000e000000030000000f0000002a000000022f6d00000000"
    "000000010000001f00000005776f726c6400000006616e796f6e6500000000020000000500000010000000022f61000000027a7a0000"
    "00020000000200000006000000022f6d0000000200000002de30b46c",
    "0100002b3eff0000000000060000000000000007000001a1fbd2e6d300000007000000022f61000000010000000100000005776f726c"
    "6400000006616e796f6e65000000010000000200000002c737a02b",
    "0100002b3eff0000000000070000000000000008000001a1fbd2e6d500000005000000012f0000000172000000010000000200000002"
    "625d635c",
    "0100002b3eff0000000000080000000000000009000001a1fbd2e6d6fffffff5000000010000000f2f612f732d303030303030303030"
    "300000000200000001a85c97a4",
]
REQUESTS = [
    (OpCode.CREATE_SESSION, CreateSessionTxn(10_000)),
    create("/a", b"x"),
    create("/a/s-", b"", 3),
    set_data("/a", None),
    set_data("/a", b"x", 9),
    multi(create("/m"), set_data("/a", b"zz"), delete("/m")),
    set_acl("/a", (ACL(1, "world", "anyone"),)),
    set_data("/", b"r"),
    CLOSE,
]


def forwarded(cxid, op, body):
    out = bytearray()
    body.encode_into(out)
    return ForwardedRequest(SESSION, cxid, op, bytes(out))


def test_tree_has_zookeepers_digest_after_every_transaction():
    tree = DataTree()
    for line in LOG:
        txn = Txn.decode(bytes.fromhex(line))
        tree.apply(txn)
        assert txn.digest in (None, tree.digest), txn
    assert tree.sessions == {} and tree.ephemerals == {}


def test_proposed_transactions_have_the_bytes_of_zookeepers():
    start = Txn.decode(bytes.fromhex(LOG[0])).time_ms
    proposer = Proposer(DataTree(), SessionTracker(2000, Instant(0, start)))
    for i, (line, (op, body)) in enumerate(zip(LOG, REQUESTS, strict=True)):
        now = Instant(i, Txn.decode(bytes.fromhex(line)).time_ms)
        txn = proposer.prepare(now, forwarded(i, op, body), i + 1, None)
        assert txn.encoded().hex() == line, REQUESTS[i]
