"""The rules by which the ensemble decides: who leads, what is committed, whose session is over."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.journal import events as e
from zabka.journal.rules.rule import Rule, references, source, zookeeper

_QUORUM = "server/quorum/"

LOOKING = Rule(
    "without a quorum nobody serves",
    "A peer that loses its leader, or a leader that loses its quorum, serves nobody and looks for a leader.",
    source("ensemble/zab/peer.py:Peer._look"),
    zookeeper("QuorumPeer.run", f"{_QUORUM}QuorumPeer.java"),
    references("Zab V"),
)
VOTE = Rule(
    "the longest history wins",
    "The vote with the higher epoch is better, then the one with the higher zxid, then the higher server id; a quorum "
    "of equal votes decides.",
    source("ensemble/zab/election.py:better"),
    zookeeper("FastLeaderElection.totalOrderPredicate", f"{_QUORUM}FastLeaderElection.java"),
    references("Zab V"),
)
PROMISE = Rule(
    "a promise is on disk before it is given",
    "A follower that has accepted an epoch follows no leader of a lower one, and has that on its disk before it "
    "answers.",
    source("ensemble/zab/learner.py:Learner._on_leader_info"),
    zookeeper("Learner.registerWithLeader", f"{_QUORUM}Learner.java"),
    references("Zab IV, phase 1"),
)
ADOPTION = Rule(
    "an epoch is adopted with its history",
    "A peer makes an epoch its own once all of the history that the epoch begins with is on its disk.",
    source("ensemble/zab/learner.py:Learner._on_newleader"),
    zookeeper("Learner.syncWithLeader", f"{_QUORUM}Learner.java"),
    references("Zab IV, phase 2", "ZOOKEEPER-4643"),
)
ESTABLISHED = Rule(
    "a leader serves when a quorum has its history",
    "A leader begins to serve once a quorum, itself among them, has acknowledged NEWLEADER and so the history before "
    "it.",
    source("ensemble/zab/leader.py:Leader._establish_with_quorum"),
    zookeeper("Leader.waitForNewLeaderAck", f"{_QUORUM}Leader.java"),
    references("Zab IV, phase 2"),
)
SERVING = Rule(
    "a peer serves once it is up to date",
    "A peer serves clients once it leads with a quorum behind it, or its leader has told it that it is up to date.",
    source("ensemble/zab/learner.py:Learner._on_up_to_date"),
    zookeeper("Learner.syncWithLeader", f"{_QUORUM}Learner.java"),
    references("Zab IV, phase 2"),
)
DIFF = Rule(
    "who lacks the end gets the end",
    "A learner whose last transaction is in its leader's history gets what follows it.",
    source("ensemble/zab/sync.py:plan_sync"),
    zookeeper("LearnerHandler.syncFollower", f"{_QUORUM}LearnerHandler.java"),
    references("Zab IV, phase 2"),
)
TRUNC = Rule(
    "what a new leader does not have is let go",
    "A learner that has logged what its leader never heard of cuts it off, for no quorum had it.",
    source("ensemble/zab/sync.py:plan_sync"),
    zookeeper("LearnerHandler.syncFollower", f"{_QUORUM}LearnerHandler.java"),
    references("Zab 2008, 4.2", "Zab IV, phase 2"),
)
SNAP = Rule(
    "who is too far away gets the whole tree",
    "A learner that its leader's history does not reach, or that parts from it in another epoch, takes the leader's "
    "whole tree over.",
    source("ensemble/zab/sync.py:plan_sync"),
    zookeeper("LearnerHandler.syncFollower", f"{_QUORUM}LearnerHandler.java"),
    references("Zab IV, phase 2"),
)
PROPOSAL = Rule(
    "a leader numbers and sends",
    "A leader gives each write the next zxid of its epoch and sends it to all who follow.",
    source("ensemble/zab/broadcast.py:Broadcast.propose"),
    zookeeper("Leader.propose", f"{_QUORUM}Leader.java"),
    references("Zab IV, phase 3"),
)
LOGGED = Rule(
    "logged before acknowledged",
    "A peer acknowledges a transaction when it is on its disk, and not before.",
    source("ensemble/zab/core.py:Core.append"),
    zookeeper("SyncRequestProcessor", "server/SyncRequestProcessor.java"),
    references("Zab IV, phase 3"),
)
COMMIT = Rule(
    "a quorum commits",
    "A transaction is committed once a quorum has it on disk, and after all before it.",
    source("ensemble/zab/broadcast.py:Broadcast.advance"),
    zookeeper("Leader.tryToCommit", f"{_QUORUM}Leader.java"),
    references("Zab IV, phase 3"),
)
ANSWER = Rule(
    "an answer follows the commit",
    "A client is answered by its own server, once that server has applied the write.",
    source("ensemble/tree/answer_queues.py:AnswerQueues.commit"),
    zookeeper("FinalRequestProcessor", "server/FinalRequestProcessor.java"),
)
MEMBERSHIP = Rule(
    "a membership counts from its transaction on",
    "A reconfiguration needs a quorum of the old members and of the new ones, and is in force once it is committed.",
    source("ensemble/zab/reconfiguration.py:Reconfiguration"),
    zookeeper("QuorumPeer.processReconfig", f"{_QUORUM}QuorumPeer.java"),
    references("ZOOKEEPER-107"),
)
SESSION_EXPIRY = Rule(
    "a session ends when nothing is heard of it",
    "The ensemble's leader expires a session of which no server has heard anything for its time-out, rounded up to a "
    "tick; a connection that breaks ends nothing.",
    source("ensemble/tree/sessions.py:SessionTracker.expire"),
    zookeeper("SessionTrackerImpl.run", "server/SessionTrackerImpl.java"),
)
SESSION_CLOSE = Rule(
    "ephemerals go with their session",
    "The transaction that closes a session deletes its ephemerals, on every peer alike.",
    source("ensemble/tree/datatree.py:DataTree._close_session"),
    zookeeper("DataTree.killSession", "server/DataTree.java"),
)
DAMAGE = Rule(
    "a log is read as far as it is whole",
    "Reading a log ends at the first record that is torn or whose checksum is wrong; what follows is no continuation.",
    source("ensemble/txnlog/recovery.py:recover"),
    zookeeper("FileTxnLog", "server/persistence/FileTxnLog.java"),
)
QUOTA = Rule(
    "a quota warns, or refuses",
    "A soft quota that is passed is told by the leader; a hard one refuses the write.",
    source("ensemble/tree/commits.py:Commits._quotas_passed"),
    zookeeper("ZooKeeperServer.checkQuota", "server/ZooKeeperServer.java"),
)
SNAPSHOT = Rule(
    "a snapshot now and then",
    "A peer writes its tree to disk once the log is worth it, or after snapCount transactions: each after its own.",
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
