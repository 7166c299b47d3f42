"""The rules of the transaction coordinator and of the group coordinator."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.journal import events as e
from zabka.journal.rules.rule import Rule, kafka, references, source

_COORDINATOR = "coordinator/transaction/TransactionCoordinator.scala"
_STORE = "coordinator/transaction/TransactionStateManager.scala"
_GROUPS = "coordinator/group/GroupCoordinator.scala"
_GROUP_STORE = "coordinator/group/GroupMetadataManager.scala"

NEW_EPOCH = Rule(
    "each producer gets an epoch of its own",
    "A producer that starts under a transactional id gets the next epoch of its producer id. Brokers reject earlier "
    "producers with the id, because their epoch is lower.",
    source("broker_sim/transactions/metadata.py:TransactionMetadata.prepare_next_epoch"),
    kafka("TransactionCoordinator.handleInitProducerId", _COORDINATOR),
    references("KIP-98"),
)
ADDED = Rule(
    "the coordinator knows a partition before it has a record",
    "A producer adds a partition to its transaction before it sends the first record there, so that the coordinator "
    "can end the transaction in every partition.",
    source("broker_sim/transactions/coordinator.py:TransactionCoordinator.add_partitions"),
    kafka("TransactionCoordinator.handleAddPartitionsToTransaction", _COORDINATOR),
    references("KIP-98"),
)
DECIDED = Rule(
    "the outcome is decided in the log",
    "Once the in-sync replicas of __transaction_state have the outcome, every coordinator writes markers for that "
    "outcome only.",
    source("broker_sim/transactions/coordinator.py:TransactionCoordinator.end"),
    kafka("TransactionCoordinator.endTransaction", _COORDINATOR),
    references("KIP-98"),
)
FENCED = Rule(
    "a new producer ends the transaction of the one before",
    "If a producer starts while an earlier one with its transactional id has an open transaction, the coordinator "
    "raises the epoch and aborts the transaction under it.",
    source("broker_sim/transactions/metadata.py:TransactionMetadata.prepare_fence"),
    kafka("TransactionCoordinator.prepareInitProducerIdTransit", _COORDINATOR),
    references("KIP-98"),
)
TIMED_OUT = Rule(
    "a transaction has a timeout",
    "If a producer does not end its transaction within transaction.timeout.ms, the coordinator raises the epoch and "
    "aborts the transaction. It checks every transaction.abort.timed.out.transaction.cleanup.interval.ms.",
    source("broker_sim/transactions/metadata.py:TransactionMetadata.has_timed_out"),
    kafka("TransactionCoordinator.abortTimedOutTransactions", _COORDINATOR),
    references("KIP-98"),
)
COMPLETE = Rule(
    "a transaction is complete once every partition has its marker",
    "The coordinator sends each marker until the leader of the partition has it. Only then can the producer begin its "
    "next transaction.",
    source("broker_sim/transactions/markers.py:MarkerSender._complete_if_written"),
    kafka("TransactionMarkerChannelManager.maybeWriteTxnCompletion",
          "coordinator/transaction/TransactionMarkerChannelManager.scala"),
    references("KIP-98"),
)  # fmt: skip
TAKEN_OVER = Rule(
    "the leader of an id's partition coordinates it",
    "The leader of a partition of __transaction_state reads it and coordinates its transactional ids. It sends the "
    "markers of transactions that are decided and not complete.",
    source("broker_sim/transactions/store.py:TransactionStore.roles_changed"),
    kafka("TransactionStateManager.loadTransactionsForTxnTopicPartition", _STORE),
    references("KIP-98"),
)
FORGOTTEN = Rule(
    "an unused transactional id expires",
    "The coordinator forgets a transactional id without a transaction that was not used for "
    "transactional.id.expiration.ms. A producer that still has it must start again.",
    source("broker_sim/transactions/store.py:TransactionStore.expire"),
    kafka("TransactionStateManager.removeExpiredTransactionalIds", _STORE),
    references("KIP-98"),
)

MEMBER_JOINED = Rule(
    "a new member starts a rebalance",
    "The partitions are divided again when a member joins, so every member must join the next generation.",
    source("broker_sim/groups/membership.py:GroupMembership._add_member"),
    kafka("GroupCoordinator.addMemberAndRebalance", _GROUPS),
)
REJOINED = Rule(
    "a changed subscription starts a rebalance",
    "A member that joins again with another subscription starts a rebalance, and so does every JoinGroup of the "
    "group's leader. The leader joins again when the partitions of its topics have changed.",
    source("broker_sim/groups/membership.py:GroupMembership._join_again"),
    kafka("GroupCoordinator.updateMemberAndRebalance", _GROUPS),
)
STATIC_REPLACED = Rule(
    "a static member can return without a rebalance",
    "A static member that restarts keeps its assignment if the group is stable and its protocol is the same. Otherwise "
    "the group rebalances.",
    source("broker_sim/groups/membership.py:GroupMembership._replace_static"),
    kafka("GroupCoordinator.updateStaticMemberAndRebalance", _GROUPS),
    references("KIP-345"),
)
MEMBER_LEFT = Rule(
    "a removed member starts a rebalance",
    "A member leaves with LeaveGroup. The others take over its partitions in the next generation.",
    source("broker_sim/groups/membership.py:GroupMembership._remove_member"),
    kafka("GroupCoordinator.removeMemberAndUpdateGroup", _GROUPS),
)
MEMBER_SILENT = Rule(
    "a member without heartbeats is removed",
    "The coordinator removes a member that sends no heartbeat and no other request for session.timeout.ms.",
    source("broker_sim/groups/membership.py:MemberSessions._due"),
    kafka("GroupCoordinator.onExpireHeartbeat", _GROUPS),
)
SYNC_OVERDUE = Rule(
    "a member must fetch its assignment",
    "The coordinator removes a member that has joined and sends no SyncGroup within the rebalance timeout.",
    source("broker_sim/groups/membership.py:GroupMembership._sync_overdue"),
    kafka("GroupCoordinator.onExpirePendingSync", _GROUPS),
    references("KAFKA-13435"),
)
GENERATION_BEGUN = Rule(
    "a generation begins when all members have joined",
    "A rebalance waits for every member, but not longer than the rebalance timeout. Dynamic members that have not "
    "joined by then are removed.",
    source("broker_sim/groups/membership.py:GroupMembership._complete_join"),
    kafka("GroupCoordinator.onCompleteJoin", _GROUPS),
)
ASSIGNED = Rule(
    "an assignment is stored before members get it",
    "The leader of the group sends the assignment. Once the in-sync replicas of __consumer_offsets have it, the group "
    "is stable. If it cannot be stored, the group rebalances.",
    source("broker_sim/groups/membership.py:GroupMembership._store_assignment"),
    kafka("GroupCoordinator.doSyncGroup", _GROUPS),
)
GROUP_LOADED = Rule(
    "the leader of a group's partition coordinates it",
    "The leader of a partition of __consumer_offsets reads it and coordinates its groups. A group with more members "
    "than group.max.size rebalances then.",
    source("broker_sim/groups/store.py:GroupStore.roles_changed"),
    kafka("GroupCoordinator.onGroupLoaded", _GROUPS),
)
GROUP_REMOVED = Rule(
    "an empty group without offsets is removed",
    "A group without members is removed when its last committed offset is deleted or expires, or when an administrator "
    "deletes the group.",
    source("broker_sim/groups/store.py:GroupStore.clean_up"),
    kafka("GroupMetadataManager.cleanupGroupMetadata", _GROUP_STORE),
)

COORDINATOR_RULES: Mapping[type[e.Event], tuple[tuple[str, Rule], ...]] = {
    e.TransactionChanged: (
        ("after=producer started", NEW_EPOCH),
        ("after=partitions added", ADDED),
        ("after=fenced", FENCED),
        ("after=timed out", TIMED_OUT),
        ("after=loaded", TAKEN_OVER),
        ("after=markers written", COMPLETE),
        ("after=expired", FORGOTTEN),
        ("", DECIDED),
    ),
    e.GroupChanged: (
        ("after=member joined", MEMBER_JOINED),
        ("after=leader joined again", REJOINED),
        ("after=member changed its subscription", REJOINED),
        ("after=static member joined again", STATIC_REPLACED),
        ("after=member left", MEMBER_LEFT),
        ("after=session timed out", MEMBER_SILENT),
        ("after=members did not fetch their assignment", SYNC_OVERDUE),
        ("after=assignment stored", ASSIGNED),
        ("after=assignment not stored", ASSIGNED),
        ("after=loaded", GROUP_LOADED),
        ("after=more members than group.max.size", GROUP_LOADED),
        ("after=offsets deleted", GROUP_REMOVED),
        ("after=offsets expired", GROUP_REMOVED),
        ("after=group deleted", GROUP_REMOVED),
        ("", GENERATION_BEGUN),
    ),
}
