"""The rules of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.journal import events as e
from zabka.journal.rules.rule import Rule, kafka, references, source

_COORDINATOR = "coordinator/transaction/TransactionCoordinator.scala"
_STORE = "coordinator/transaction/TransactionStateManager.scala"

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
}
