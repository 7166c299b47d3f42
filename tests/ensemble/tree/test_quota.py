"""Quotas: how usage is counted and limited, and the quota events.

The numbers are from ZooKeeper 3.9.5 for the same requests.
"""

import random

import pytest

from tests.ensemble.tree.tree_driver import CLOSE, Ensemble, create, delete, get, multi, set_data
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import OpCode
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.quota import Limits, parse_limits, usage_of
from zabka.ensemble.tree_rules import TreeRules
from zabka.ensemble.txnlog.snapshots import list_snapshots, read_snapshot, write_snapshot
from zabka.journal.events import QuotaExceeded

ENFORCED = TreeRules(enforce_quota=True)
REFUSED = ErrorCode.QUOTA_EXCEEDED


def quota(path, limits):
    """Return the requests that create the quota znodes of a path, as `setquota` does."""
    parts = path.split("/")[1:]
    above = ["/zookeeper/quota/" + "/".join(parts[: i + 1]) for i in range(len(parts))]
    return [
        *(create(each) for each in above),
        create(f"/zookeeper/quota{path}/zookeeper_limits", limits.encode()),
        create(f"/zookeeper/quota{path}/zookeeper_stats", b"count=0,bytes=0"),
    ]


def limited(path="/q", limits="count=-1,bytes=-1", rules=ENFORCED, servers=1):
    """Return an ensemble with a quota on `path`, 5 bytes in /q and 3 bytes in /q/a."""
    ensemble = Ensemble(servers=servers, tree=rules)
    client = ensemble.connect()
    for request in (create("/q", b"12345"), create("/q/a", b"abc"), *quota(path, limits)):
        assert ensemble.ask(client, request).err in (0, ErrorCode.NODE_EXISTS)
    return ensemble, client


def stats(ensemble, path="/q", server=0):
    return ensemble.services[server].tree.nodes[f"/zookeeper/quota{path}/zookeeper_stats"].data.decode()


# -- quota znodes as text -----------------------------------------------------------------------------------

LIMITS = [
    (b"count=5,bytes=20=;byteHardLimit=30;countHardLimit=6", Limits(5, 20, 6, 30)),
    (b"count=5,bytes=-1", Limits(5, -1)),
    (b"count=-1,bytes=-1=;countHardLimit=3", Limits(-1, -1, 3)),
    (b"bytes=4", Limits(-1, 4)),
    (b"count=,bytes=7", Limits(-1, 7)),
    (b"", Limits()),
    (None, Limits()),
    (b"garbage", Limits()),
    (b"\xff=;;==,count=1e3", Limits()),
    (b"count=99999999999999999999", Limits()),
]


@pytest.mark.parametrize(("text", "limits"), LIMITS)
def test_quota_limits_are_parsed_and_invalid_ones_ignored(text, limits):
    assert parse_limits(text) == limits


# -- counting ----------------------------------------------------------------------------------------------


def test_quota_statistics_follow_every_create_set_and_delete():
    ensemble, client = limited()
    assert stats(ensemble) == "count=2,bytes=8", "the node itself counts, and what was there before the quota"
    for request, expected in (
        (set_data("/q/a", b"abcdef"), "count=2,bytes=11"),
        (create("/q/b", b"zz"), "count=3,bytes=13"),
        (create("/q/b/c", None), "count=4,bytes=13"),
        (set_data("/q/b", None), "count=4,bytes=11"),
        (delete("/q/b/c"), "count=3,bytes=11"),
        (create("/qq", b"not below"), "count=3,bytes=11"),
        (create("/q/b"), "count=3,bytes=11"),
        (delete("/q/b"), "count=2,bytes=11"),
        (create("/q/e", b"e", 1), "count=3,bytes=12"),
        (CLOSE, "count=2,bytes=11"),
    ):
        ensemble.send(client, request)
        assert stats(ensemble) == expected, request


def test_quota_statistics_change_without_version_or_watch_event():
    ensemble, client = limited()
    path = "/zookeeper/quota/q/zookeeper_stats"
    before = ensemble.ask(client, get(path, True)).body
    ensemble.ask(client, create("/q/b", b"1234567"))
    after = ensemble.ask(client, get(path)).body
    assert after.data == b"count=3,bytes=15"
    assert after.stat == before.stat._replace(data_length=len(after.data))
    digest = ensemble.services[0].tree.digest
    assert digest == ensemble.history[-1].digest, "the digest does not contain the statistics"


def test_every_server_has_the_same_quota_statistics():
    ensemble, client = limited(servers=2)
    ensemble.ask(client, multi(create("/q/b", b"x"), set_data("/q/a", b""), delete("/q/a")))
    assert stats(ensemble, server=0) == stats(ensemble, server=1) == "count=2,bytes=6"


def test_failed_multi_does_not_change_quota_statistics():
    ensemble, client = limited()
    ensemble.ask(client, multi(create("/q/b", b"x"), delete("/q/none")))
    assert stats(ensemble) == "count=2,bytes=8"


def test_quota_can_be_set_before_its_znode_is_created():
    ensemble, client = limited("/later")
    assert stats(ensemble, "/later") == "count=0,bytes=0"
    ensemble.ask(client, create("/later", b"abc"))
    ensemble.ask(client, create("/later/x"))
    assert stats(ensemble, "/later") == "count=2,bytes=3"


def test_quota_usage_is_counted_only_while_the_quota_exists():
    ensemble, client = limited()
    limits, statistics = "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"
    ensemble.ask(client, delete(limits))
    ensemble.ask(client, create("/q/b", b"x"))
    assert stats(ensemble) == "count=2,bytes=8"
    ensemble.ask(client, delete(statistics))
    ensemble.ask(client, create(limits, b"count=9,bytes=-1"))
    ensemble.ask(client, create(statistics))
    assert stats(ensemble) == "count=3,bytes=9"


def test_nested_quotas_each_count_their_whole_subtree():
    """Each of several nested quotas counts its whole subtree.

    ZooKeeper does so only after a restart. Until then, it counts only for the innermost quota.
    """
    ensemble, client = limited()
    for request in quota("/q/a", "count=-1,bytes=-1"):
        ensemble.ask(client, request)
    ensemble.ask(client, create("/q/a/x", b"12"))
    assert (stats(ensemble), stats(ensemble, "/q/a")) == ("count=3,bytes=10", "count=2,bytes=5")


@pytest.mark.parametrize("path", ["", "/zookeeper", "/zookeeper/quota/q"])
def test_quota_on_root_or_zookeeper_nodes_is_rejected(path):
    """A quota on / or on a znode under /zookeeper is rejected.

    A quota on the root crashes ZooKeeper, immediately and at every later start.
    """
    ensemble, client = limited()
    for request in quota(path, "count=0,bytes=0=;countHardLimit=0;byteHardLimit=0") if path else [
        create("/zookeeper/quota/zookeeper_limits", b"count=1,bytes=1"), create("/zookeeper/quota/zookeeper_stats"),
    ]:  # fmt: skip
        ensemble.ask(client, request)
    assert ensemble.ask(client, create("/alive")).err == 0
    assert list(ensemble.services[0].tree.quotas.by_path) == ["/q"]


def test_overwritten_quota_statistics_remain_until_next_write():
    ensemble, client = limited()
    assert ensemble.ask(client, set_data("/zookeeper/quota/q/zookeeper_stats", b"garbage")).err == 0
    ensemble.ask(client, create("/q/b", b"x"))
    assert stats(ensemble) == "count=3,bytes=9"


@pytest.mark.parametrize("seed", range(10))
def test_statistics_match_the_tree_after_replay_and_snapshot(seed, tmp_path):
    rng = random.Random(seed)
    ensemble, client = limited()
    for request in quota("/q/a", "count=-1,bytes=-1"):
        ensemble.ask(client, request)
    names = ["/q/a", "/q/b", "/q/a/x", "/q/a/y", "/q/b/z", "/r"]
    for _ in range(80):
        path, data = rng.choice(names), rng.choice((None, b"", b"x" * rng.randrange(9)))
        single = rng.choice((create(path, data), delete(path), set_data(path, data)))
        ensemble.ask(client, multi(single, create("/m"), delete("/m")) if rng.random() < 0.3 else single)
    tree = ensemble.services[0].tree
    write_snapshot(tmp_path, tree.to_snapshot())
    loaded = DataTree.from_snapshot(read_snapshot(list_snapshots(tmp_path)[0][1]))
    for each in (tree, loaded):
        for path in ("/q", "/q/a"):
            text = "count={},bytes={}".format(*usage_of(each, path))
            assert each.nodes[f"/zookeeper/quota{path}/zookeeper_stats"].data.decode() == text
            kept = each.quotas.by_path[path]
            assert (kept.count, kept.bytes) == usage_of(each, path)
    assert loaded.digest == tree.digest
    sizes = [len(path) + len(node.data or b"") for path, node in tree.nodes.items()]
    assert tree.data_size_bytes == loaded.data_size_bytes == sum(sizes)


def test_snapshot_contains_the_quota_statistics_at_its_start():
    ensemble, client = limited()
    snapshot = ensemble.services[0].tree.to_snapshot()
    ensemble.ask(client, create("/q/b", b"x"))
    kept = {image.path: image.data for image in snapshot.nodes}
    assert kept["/zookeeper/quota/q/zookeeper_stats"] == b"count=2,bytes=8"
    assert stats(ensemble) == "count=3,bytes=9"


# -- limits -------------------------------------------------------------------------------------------------

HARD = "count=5,bytes=20=;byteHardLimit=12;countHardLimit=3"


def test_hard_limit_rejects_writes_that_exceed_it():
    ensemble, client = limited(limits=HARD)
    for request, error in (
        (create("/q/b", b"12345"), REFUSED),  # 13 bytes in total in total
        (set_data("/q/a", b"12345678"), REFUSED),
        (create("/q/b", b"1234"), 0),
        (create("/q/c"), REFUSED),  # would be the fourth znode
        (create("/elsewhere", bytes(99)), 0),
        (set_data("/q/b", b""), 0),
        (delete("/q/b"), 0),
        (create("/q/c"), 0),
    ):
        assert ensemble.ask(client, request).err == error, request
    assert stats(ensemble) == "count=3,bytes=8"


def test_hard_limit_is_checked_before_the_version():
    ensemble, client = limited(limits=HARD)
    ensemble.auto = False
    ensemble.take(client)
    for request in (set_data("/q/a", bytes(8), 7), set_data("/q/a", bytes(7), 7), set_data("/q/a", bytes(7))):
        ensemble.send(client, request)
    ensemble.commit()
    assert [reply.err for reply in ensemble.take(client)] == [REFUSED, ErrorCode.BAD_VERSION, 0]


def test_hard_limit_rejections_are_counted_per_top_level_znode():
    """Writes rejected by a hard limit are counted by the first element of their path, as in ZooKeeper 3.9.5.

    Each request counts once, even a multi. A soft limit never counts, and srst resets the counts to 0.
    """
    ensemble, client = limited("/q/a", "count=-1,bytes=-1=;byteHardLimit=5;countHardLimit=2")
    for request in quota("/soft", "count=1,bytes=-1"):
        ensemble.ask(client, request)
    refused = create("/q/a/1"), create("/q/a/2"), set_data("/q/a", bytes(6)), multi(create("/q/a/3"), create("/z"))
    for request in (*refused, create("/soft"), create("/soft/1"), create("/soft/2"), create("/q/b", bytes(99))):
        ensemble.ask(client, request)
    counters = ensemble.services[0].counters
    assert counters.quota_refusals == {"q": 3}
    counters.reset()
    assert counters.quota_refusals == {"q": 0}
    ensemble.ask(client, create("/q/a/2"))
    assert counters.quota_refusals == {"q": 1}


def test_quota_is_enforced_only_if_configured():
    ensemble, client = limited(limits=HARD, rules=TreeRules())
    assert ensemble.ask(client, create("/q/b", bytes(99))).err == 0
    assert stats(ensemble) == "count=3,bytes=107", "counted all the same"


def test_soft_limit_rejects_no_writes():
    ensemble, client = limited(limits="count=2,bytes=8")
    assert ensemble.ask(client, create("/q/b", bytes(99))).err == 0


def test_changed_quota_limit_applies_immediately():
    ensemble, client = limited()
    ensemble.ask(client, set_data("/zookeeper/quota/q/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=2"))
    assert ensemble.ask(client, create("/q/b")).err == REFUSED
    ensemble.ask(client, set_data("/zookeeper/quota/q/zookeeper_limits", b""))
    assert ensemble.ask(client, create("/q/b")).err == 0


def test_only_the_innermost_quota_is_enforced():
    ensemble, client = limited(limits="count=-1,bytes=-1=;countHardLimit=2")
    for request in quota("/q/a", "count=-1,bytes=-1=;countHardLimit=2"):
        ensemble.ask(client, request)
    assert ensemble.ask(client, create("/q/a/x")).err == 0, "though /q is full"
    assert ensemble.ask(client, create("/q/a/y")).err == REFUSED
    assert ensemble.ask(client, create("/q/b")).err == REFUSED


def test_quota_without_statistics_is_not_enforced():
    ensemble, client = limited(limits=HARD)
    ensemble.ask(client, delete("/zookeeper/quota/q/zookeeper_stats"))
    assert ensemble.ask(client, create("/q/b", bytes(99))).err == 0


def test_multi_over_a_limit_is_rejected_as_a_whole():
    ensemble, client = limited(limits=HARD)
    reply = ensemble.ask(client, multi(create("/q/b"), create("/q/c")))
    assert [result.error for result in reply.body.results] == [0, REFUSED]
    assert ensemble.ask(client, multi(create("/q/b"), delete("/q/b"), create("/q/c"))).err == 0
    assert stats(ensemble) == "count=3,bytes=8"


def test_writes_in_flight_count_against_a_hard_limit():
    """Writes in flight count against a hard limit.

    ZooKeeper counts only committed writes, so several writes in flight can together exceed a hard limit.
    """
    ensemble, client = limited(limits=HARD)
    ensemble.auto = False
    ensemble.take(client)
    for request in (
        create("/q/b", b"12"), create("/q/c"), delete("/q/b"), create("/q/c", b"1"), set_data("/q/c", b"12345"),
        set_data("/q/c", b"1234"), set_data("/q/c", b"2345"), create("/q/d"),
    ):  # fmt: skip
        ensemble.send(client, request)
    ensemble.commit()
    assert [reply.err for reply in ensemble.take(client)] == [0, REFUSED, 0, 0, REFUSED, 0, 0, REFUSED]
    assert stats(ensemble) == "count=3,bytes=12"
    ensemble.auto = True
    assert ensemble.ask(client, delete("/q/c")).err == ensemble.ask(client, create("/q/d", b"1234")).err == 0


@pytest.mark.parametrize("seed", range(10))
def test_hard_limit_is_not_exceeded_by_any_mix_of_writes(seed):
    rng = random.Random(seed)
    ensemble, client = limited(limits="count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=5")
    ensemble.auto = False
    names = [f"/q/{i}" for i in range(7)]
    for _ in range(200):
        path, data = rng.choice(names), bytes(rng.randrange(9))
        single = rng.choice((create(path, data), create(path, data), delete(path), set_data(path, data)))
        ensemble.send(client, multi(single, create(rng.choice(names), data)) if rng.random() < 0.3 else single)
        if rng.random() < 0.3:
            ensemble.commit(rng.randrange(len(ensemble.proposed) + 1))
            kept = ensemble.services[0].tree.quotas.by_path["/q"]
            assert kept.count <= 5 and kept.bytes <= 20
    ensemble.commit()
    ensemble.auto = True
    tree = ensemble.services[0].tree
    for name in names:
        if name in tree.nodes:
            assert ensemble.ask(client, delete(name)).err == 0
    assert [ensemble.ask(client, create(name, b"abcd")).err for name in names[:4]] == [0, 0, 0, REFUSED]


# -- events -----------------------------------------------------------------------------------------------


def test_leader_reports_an_exceeded_quota_once():
    ensemble, client = limited(limits="count=3,bytes=-1", rules=TreeRules(), servers=2)
    for i in range(4):
        ensemble.ask(client, create(f"/q/x{i}"))
    reported = [(server, event) for server, event in ensemble.events if isinstance(event, QuotaExceeded)]
    assert reported == [(0, QuotaExceeded("/q", 4, 3, 8, -1))]
    for i in range(4):
        ensemble.ask(client, delete(f"/q/x{i}"))
    ensemble.ask(client, multi(create("/q/b"), create("/q/c"), set_data("/q/c", bytes(100))))
    assert len(ensemble.facts(QuotaExceeded)) == 2, "an exceeded quota is reported again"


@pytest.mark.parametrize("limits", ["count=0,bytes=-1", "count=-1,bytes=0"])
def test_quota_limit_of_zero_is_exceeded_by_first_znode_or_byte(limits):
    ensemble, client = limited("/later", limits=limits, rules=TreeRules())
    assert ensemble.facts(QuotaExceeded) == [], "zero does not exceed a limit of zero"
    ensemble.ask(client, create("/later", b"1"))
    assert [(each.path, each.count, each.bytes) for each in ensemble.facts(QuotaExceeded)] == [("/later", 1, 1)]


def test_closed_session_frees_the_quota_usage_of_its_ephemerals():
    ensemble, client = limited(limits=HARD)
    other = ensemble.connect()
    assert ensemble.ask(other, create("/q/e", b"e", 1)).err == 0
    assert ensemble.ask(client, create("/q/b")).err == REFUSED
    ensemble.send(other, CLOSE)
    assert ensemble.ask(client, create("/q/b")).err == 0
    assert ensemble.history[-1].type == OpCode.CREATE2
