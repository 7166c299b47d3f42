"""Scripts of the outage library, each with an injected bug and the string that one of its problems must contain.

If a script's bug is a config key of a broker, or one of the script's steps, the script itself states the bug and the
string (`WorldScenario.shows`). All other scripts are in this table, so that tests can prove that they show their bugs.
"""

from __future__ import annotations

from typing import NamedTuple

ONLY_ON_3 = "0x100000001 committed and durable only on [3]"
ANOTHER_HISTORY = "history with another of its own"


class Pair(NamedTuple):
    """A script and the name of an injected bug.

    In a run of the script with the bug, one of the problems must contain the string `shows`.
    """

    script: str
    injected_bug: str
    shows: str


PAIRS = (
    Pair("zookeeper-1549", "snapshots of what is not committed", "log of 3 is '1.1', the script expects ''"),
    Pair("zookeeper-1675", "sync answered by the leader alone", "answered of 0 is '3', the script expects '2'"),
    Pair("sync-behind-a-slow-disk", "answers overtake the commits they rely on", "tree of 2 is '', the script expects"),
    Pair("zookeeper-2845", "votes with what memory knows", "peer-3 broke ACKEPOCH names 0x0, 0x100000001 is durable"),
    Pair("zookeeper-1154", "a DIFF over what the leader lacks", f"3 acknowledged 2's {ANOTHER_HISTORY}"),
    Pair("zookeeper-3911", "the history is logged at UPTODATE", ONLY_ON_3),
    Pair("zookeeper-4646", "the history is logged at UPTODATE", ONLY_ON_3),
    Pair("zookeeper-4643", "currentEpoch with the promise", "epochs of 1 is '2 2', the script expects '2 1'"),
    Pair(
        "zookeeper-4643-written",
        "NEWLEADER acknowledged before the history",
        "epochs of 1 is '2 2', the script expects '2 1'",
    ),
    Pair(
        "zookeeper-4882",
        "who comes back is taken for up to date",
        "peer-1 serves from 0x0; it had delivered up to 0x100000002",
    ),
    Pair(
        "zookeeper-4882-reconnect",
        "promised on its way to the disk",
        "phase of 1 is 'SYNCHRONIZATION', the script expects 'DISCOVERY'",
    ),
    Pair("zookeeper-4712", "the disk's queue is forgotten with the role", f"1 acknowledged 3's {ANOTHER_HISTORY}"),
    Pair("zookeeper-1732", "leaders of other rounds are not joined", "(1, 2, 3) elected nobody"),
    Pair("zookeeper-1277", "the counter runs on", "looks of 3 is 'False', the script expects 'True'"),
    Pair("zookeeper-3109", "a leader waits for whoever looks elsewhere", "(2, 3) elected nobody"),
    Pair(
        "zookeeper-3104",
        "proposals pass those who synchronise",
        "log of 1 is '1.1 1.2 1.3 1.4', the script expects '1.1 1.2 1.3 1.4 2.1 2.2'",
    ),
    Pair(
        "zookeeper-3642",
        "a snapshot is taken over at once",
        "log of 1 is '1.1 1.2 1.3 1.4', the script expects ''",
    ),
    Pair(
        "zookeeper-5094",
        "what follows a truncation is logged at once",
        "log of 3 is '1.1 2.1', the script expects '1.1'",
    ),
    Pair(
        "zookeeper-4685",
        "proposals are acknowledged before NEWLEADER",
        "messageIllegal: peer-3 says of peer-1: it acknowledged a proposal before NEWLEADER",
    ),
    Pair(
        "zookeeper-4685",
        "pending proposals not given to a newcomer",
        "log of 1 is '1.1', the script expects '1.1 1.2'",
    ),
    Pair(
        "zookeeper-4394",
        "proposals before NEWLEADER are forgotten",
        "log of 1 is '1.1', the script expects '1.1 1.2'",
    ),
    Pair("zookeeper-4785", "NEWLEADER acknowledged before the history", ONLY_ON_3),
    Pair(
        "zookeeper-4925",
        "what a synchronisation brings is not in memory",
        "messageIllegal: peer-2 says of peer-1: gap: transaction 0x100000003 follows 0x100000001",
    ),
    Pair(
        "zookeeper-3526",
        "what a role leaves pending is not in memory",
        "0x200000002 committed and durable only on [3]",
    ),
    Pair("zookeeper-4352", "a tree alone is an empty DIFF", "log of 1 is '', the script expects '1.1 1.2 1.3 1.4'"),
    Pair("zookeeper-2846", "memory survives what replaces the history", f"1 acknowledged 3's {ANOTHER_HISTORY}"),
    Pair("zookeeper-2418", "a DIFF across the gap", f"1 acknowledged 3's {ANOTHER_HISTORY}"),
    Pair(
        "zookeeper-1653",
        "a start refuses a history beyond its epoch",
        "peer-1 halted: the history is of a later epoch than currentEpoch",
    ),
    Pair("zookeeper-3701", "a truncation is taken for done", f"3 acknowledged 2's {ANOTHER_HISTORY}"),
    Pair("zookeeper-trunc-fsync", "no truncation on sync", f"3 acknowledged 2's {ANOTHER_HISTORY}"),
    Pair("zookeeper-trunc-fsync", "a truncation is taken for done", f"3 acknowledged 2's {ANOTHER_HISTORY}"),
    Pair(
        "ahead-of-its-leader",
        "who comes back ahead is cut back",
        "peer-1 went back from 0x100000001 to 0x0, 0x100000001 is committed",
    ),
    # -- histories on disk
    Pair("diff-over-a-purge", "the log is read by its numbers", "committed prefixes agree: zxid 0x200000001"),
    Pair("diff-over-bit-rot", "reading goes on behind damage", f"1 acknowledged 3's {ANOTHER_HISTORY}"),
    Pair(
        "diff-over-bit-rot",
        "a log that breaks off is tried again",
        "serves of 1 is 'False', the script expects 'True'",
    ),
    Pair(
        "position-behind-a-truncation",
        "places in the log outlive what was there",
        f"4 acknowledged 5's {ANOTHER_HISTORY}",
    ),
    Pair(
        "damaged-leader-elected",
        "who has lost history is elected for its past",
        "no acknowledged write lost: peer-3 leads epoch 2 with a history up to 0x100000001, but 0x100000002",
    ),
    Pair(
        "damaged-leader-elected",
        "damage is taken for a torn tail",
        "no acknowledged write lost: peer-3 leads epoch 2 with a history up to 0x100000001, but 0x100000002",
    ),
    Pair(
        "commit-behind-the-leaders-back",
        "who has lost history serves what its leader knows",
        "committedLogDurability: peer-2 serves from 0x100000001; it had delivered up to 0x100000002",
    ),
    Pair(
        "commit-behind-the-leaders-back",
        "who has lost history votes with what its leader knows",
        "no acknowledged write lost: peer-2 leads epoch 2 with a history up to 0x100000001, but 0x100000002",
    ),
    Pair(
        "snapshot-of-what-was-cut",
        "a spoiled snapshot is made good at once",
        f"3 acknowledged 2's {ANOTHER_HISTORY}",
    ),
    Pair(
        "newest-log-gone",
        "a log that is gone is not missed",
        "no acknowledged write lost: peer-3 leads epoch 2 with a history up to 0x100000002, but 0x100000003",
    ),
    Pair("tree-that-differs", "digests that differ are counted", f"2 acknowledged 3's {ANOTHER_HISTORY}"),
    # -- sessions, watches and snapshots
    Pair("zookeeper-1675-frozen", "a frozen leader thaws and answers", "get /x answered 'old', not ('new',"),
    Pair("zookeeper-1367", "a new leader tracks nobody", "exists /e: {1: 'yes', 2: 'yes', 3: 'yes'}, expected no"),
    Pair("zookeeper-1367", "closed sessions keep their ephemerals", "tree digest agrees with the leader's"),
    Pair("zookeeper-2355", "closes delete nothing", "no ephemeral outlives its session"),
    Pair("zookeeper-3144", "snapshots know no sessions", "'e0 e2 e4 zookeeper'}, expected zookeeper"),
    Pair("zookeeper-3145", "replay of what the snapshot holds", "committed prefixes agree: zxid 0x100000003"),
    Pair("zookeeper-3127", "snapshots come between the parts of a multi", "digests agree: at 0x10000000a"),
    Pair("zookeeper-5010", "closes delete nothing", "no ephemeral outlives its session"),
    Pair("zookeeper-4846", "snapshots have no access lists", "acl /guarded: {1: 'world:31'"),
    Pair("zookeeper-710", "session owner not checked", "get /x answered 'late', not ('moved',)"),
    Pair("zookeeper-706", "watches lost on reconnection", "a's watches fired 0 times, not 3"),
    Pair("keeper-116690", "who returns gets another session", "exists /lock answered 'no', not ('ConnectionLoss',"),
    Pair("keeper-116690", "closes delete nothing", "no ephemeral outlives its session"),
    # -- read-only service
    Pair("read-only-minority", "a read-only server answers writes", "answered 'NodeExists', not ('NotReadOnly',)"),
    Pair("read-only-moves-on", "local sessions are taken elsewhere", "reader is expired, not connected"),
    Pair("read-only-global-session", "global sessions go on alone", "owner is connected read-only, not suspended"),
    Pair("read-only-restarts", "sessions of a read-only server are global", "session is global, not local"),
    Pair("read-only-restarts", "read-only service never ends", "reader is connected read-only, not connected"),
    # -- the controller
    Pair("controller-killed", "a new controller takes leaders for alive", "not led by second"),
    Pair("leader-killed", "deaths are noted alone", "not led by third"),
    Pair("kafka-session-flapping", "who lost its session stands no more", "no broker but 1 became controller"),
    Pair("late-isr-change", "ISR change without the version check", "StrongIsr: orders-0"),
    Pair("kafka-6082", "no epoch check on controller writes", "controller epochs rise and fence"),
    # -- common faults
    Pair("follower-lags", "who lags stays in sync", "a record to orders-0 came to"),
    Pair("zab-leader-killed", "votes with what memory knows", "peer-2 votes with 0x100000002, 0x100000006 is durable"),
    Pair("quorum-lost", "a leader never steps down", "an ensemble that serves did not come true"),
    Pair("preferred-election", "nobody is preferred", "not led by second"),
    Pair("cut-one-way", "deaths are noted alone", "not led by third"),
    Pair("reassignment-interrupted", "a reassignment ends with its controller", "not led by third with"),
    # -- transactions
    Pair("zombie-producer", "producers are not fenced", "a record of old came to ok"),
    Pair("producer-killed", "transactions do not time out", "payments is Ongoing, not CompleteAbort"),
    Pair(
        "coordinator-fails-over",
        "decisions end with their coordinator",
        "read_committed consumers wait at offset 0 of orders-0",
    ),
    Pair(
        "expired-transactional-id",
        "ids with a transaction expire",
        "the end of reports's transaction came to invalid_producer_id_mapping",
    ),
    Pair("kafka-9144", "markers reset a producer's time", "is of coordinator epoch 0, after one of 1"),
    # -- consumer groups
    Pair("member-paused", "former members commit", "the commit of slow came to ok"),
)
