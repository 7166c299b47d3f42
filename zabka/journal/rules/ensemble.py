"""The rules of the ensemble: leadership, commits, and the end of sessions."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.journal import events as e
from zabka.journal.rules.rule import Rule, references, source, zookeeper

_QUORUM = "server/quorum/"

LOOKING = Rule(
    "no service without a quorum",
    "A follower that loses its leader, or a leader that loses its quorum, stops serving clients and looks for a "
    "leader.",
    source("ensemble/zab/peer.py:Peer._look"),
    zookeeper("QuorumPeer.run", f"{_QUORUM}QuorumPeer.java"),
    references("Zab V"),
)
VOTE = Rule(
    "the longest history wins",
    "The vote with the higher epoch wins, then the one with the higher zxid, then the higher server id. A quorum of "
    "equal votes decides.",
    source("ensemble/zab/election.py:better"),
    zookeeper("FastLeaderElection.totalOrderPredicate", f"{_QUORUM}FastLeaderElection.java"),
    references("Zab V"),
)
PROMISE = Rule(
    "an accepted epoch is on disk before the reply",
    "A follower that has accepted an epoch follows no leader of a lower epoch. It writes the accepted epoch to disk "
    "before it replies.",
    source("ensemble/zab/learner.py:Learner._on_leader_info"),
    zookeeper("Learner.registerWithLeader", f"{_QUORUM}Learner.java"),
    references("Zab IV, phase 1"),
)
ADOPTION = Rule(
    "an epoch is adopted with its history",
    "A peer adopts an epoch as its current one once the whole initial history of the epoch is on its disk.",
    source("ensemble/zab/learner.py:Learner._on_newleader"),
    zookeeper("Learner.syncWithLeader", f"{_QUORUM}Learner.java"),
    references("Zab IV, phase 2", "ZOOKEEPER-4643"),
)
ESTABLISHED = Rule(
    "a leader serves when a quorum has its history",
    "A leader starts to serve once a quorum, including itself, has acknowledged NEWLEADER and so the history before "
    "it.",
    source("ensemble/zab/leader.py:Leader._establish_with_quorum"),
    zookeeper("Leader.waitForNewLeaderAck", f"{_QUORUM}Leader.java"),
    references("Zab IV, phase 2"),
)
SERVING = Rule(
    "a peer serves once it is up to date",
    "A peer serves clients once it is the leader with a quorum, or has received UPTODATE from its leader.",
    source("ensemble/zab/learner.py:Learner._on_up_to_date"),
    zookeeper("Learner.syncWithLeader", f"{_QUORUM}Learner.java"),
    references("Zab IV, phase 2"),
)
DIFF = Rule(
    "a learner that is behind receives what it lacks",
    "A learner whose last transaction is in the leader's history receives the transactions after it.",
    source("ensemble/zab/sync.py:plan_sync"),
    zookeeper("LearnerHandler.syncFollower", f"{_QUORUM}LearnerHandler.java"),
    references("Zab IV, phase 2"),
)
TRUNC = Rule(
    "transactions that the new leader lacks are truncated",
    "A learner truncates logged transactions that its leader does not have, because no quorum had them.",
    source("ensemble/zab/sync.py:plan_sync"),
    zookeeper("LearnerHandler.syncFollower", f"{_QUORUM}LearnerHandler.java"),
    references("Zab 2008, 4.2", "Zab IV, phase 2"),
)
SNAP = Rule(
    "a learner that is too far behind receives a snapshot",
    "If the leader's history does not reach back to a learner, or the learner diverges in another epoch, the learner "
    "receives the leader's whole tree.",
    source("ensemble/zab/sync.py:plan_sync"),
    zookeeper("LearnerHandler.syncFollower", f"{_QUORUM}LearnerHandler.java"),
    references("Zab IV, phase 2"),
)
PROPOSAL = Rule(
    "the leader numbers and sends proposals",
    "A leader gives each write the next zxid of its epoch and sends the proposal to all followers.",
    source("ensemble/zab/broadcast.py:Broadcast.propose"),
    zookeeper("Leader.propose", f"{_QUORUM}Leader.java"),
    references("Zab IV, phase 3"),
)
LOGGED = Rule(
    "logged before acknowledged",
    "A peer acknowledges a transaction only after the transaction is on its disk.",
    source("ensemble/zab/core.py:Core.append"),
    zookeeper("SyncRequestProcessor", "server/SyncRequestProcessor.java"),
    references("Zab IV, phase 3"),
)
COMMIT = Rule(
    "a quorum commits",
    "A transaction is committed once a quorum has it on disk, and only after all transactions before it.",
    source("ensemble/zab/broadcast.py:Broadcast.advance"),
    zookeeper("Leader.tryToCommit", f"{_QUORUM}Leader.java"),
    references("Zab IV, phase 3"),
)
ANSWER = Rule(
    "the reply follows the commit",
    "A client receives the reply from its own server, once that server has applied the write.",
    source("ensemble/tree/answer_queues.py:AnswerQueues.commit"),
    zookeeper("FinalRequestProcessor", "server/FinalRequestProcessor.java"),
)
MEMBERSHIP = Rule(
    "a membership is active from its transaction",
    "A reconfiguration needs a quorum of the old members and a quorum of the new ones. It is active once it is "
    "committed.",
    source("ensemble/zab/reconfiguration.py:Reconfiguration"),
    zookeeper("QuorumPeer.processReconfig", f"{_QUORUM}QuorumPeer.java"),
    references("ZOOKEEPER-107"),
)
SESSION_EXPIRY = Rule(
    "a session expires without contact",
    "The leader of the ensemble expires a session with which no server has had contact for the session timeout, "
    "rounded up to a tick. A lost connection alone does not end a session.",
    source("ensemble/tree/sessions.py:SessionTracker.expire"),
    zookeeper("SessionTrackerImpl.run", "server/SessionTrackerImpl.java"),
)
SESSION_CLOSE = Rule(
    "ephemerals are deleted with their session",
    "The transaction that closes a session deletes its ephemerals, on every peer alike.",
    source("ensemble/tree/datatree.py:DataTree._close_session"),
    zookeeper("DataTree.killSession", "server/DataTree.java"),
)
DAMAGE = Rule(
    "a log is read up to the first damaged record",
    "Reading a log stops at the first record that is torn or has a wrong checksum. Later records are not used.",
    source("ensemble/txnlog/recovery.py:recover"),
    zookeeper("FileTxnLog", "server/persistence/FileTxnLog.java"),
)
QUOTA = Rule(
    "a quota warns or rejects",
    "If a soft quota is exceeded the leader reports it. A hard quota rejects the write.",
    source("ensemble/tree/commits.py:Commits._quotas_passed"),
    zookeeper("ZooKeeperServer.checkQuota", "server/ZooKeeperServer.java"),
)
SNAPSHOT = Rule(
    "a snapshot from time to time",
    "A peer writes its tree to disk once the log has grown enough, or after snapCount transactions. Each peer decides "
    "for itself.",
    source("ensemble/zab/snapshot_pace.py:SnapshotPace.is_due"),
    zookeeper("SyncRequestProcessor.shouldSnapshot", "server/SyncRequestProcessor.java"),
)

ENSEMBLE_RULES: Mapping[type[e.Event], tuple[tuple[str, Rule], ...]] = {
    e.PeerStateChanged: (("state=LOOKING", LOOKING), ("phase=BROADCAST", SERVING), ("", VOTE)),
    e.EpochAccepted: (("", PROMISE),),
    e.EpochAdopted: (("", ADOPTION),),
    e.LeaderEstablished: (("", ESTABLISHED),),
    e.MembershipActivated: (("", MEMBERSHIP),),
    e.LearnerSynced: (("mode=DIFF", DIFF), ("mode=TRUNC", TRUNC), ("mode=SNAP", SNAP)),
    e.TxnLogTruncated: (("", TRUNC),),
    e.HistoryReplaced: (("", SNAP),),
    e.LogDamageFound: (("", DAMAGE),),
    e.SnapshotTaken: (("", SNAPSHOT),),
    e.QuotaExceeded: (("", QUOTA),),
    e.SessionExpired: (("", SESSION_EXPIRY),),
    e.SessionClosed: (("", SESSION_CLOSE),),
    e.EphemeralDeleted: (("", SESSION_CLOSE),),
    e.TxnProposed: (("", PROPOSAL),),
    e.TxnLogged: (("", LOGGED),),
    e.TxnCommitted: (("", COMMIT),),
    e.WriteAcknowledged: (("", ANSWER),),
}
