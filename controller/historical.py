"""Old behaviours of Kafka's, by name: known bugs, off by default, switched on to replay their outages.

`zabka.historical=truncate-to-high-watermark,no-broker-epoch` in server.properties, or `--set` on the command line.
Some were fixed in a Kafka release; those marked open are in Kafka 3.9's ZooKeeper mode to this day.
"""

from __future__ import annotations

from enum import StrEnum

HISTORICAL_KEY = "zabka.historical"


class Historical(StrEnum):
    """One old behaviour.  The source is the issue that describes it."""

    UNFENCED_CONTROLLER = "unfenced-controller"
    """A controller's writes do not check /controller_epoch.  KAFKA-6082, fixed in 2.1."""
    GHOST_CONTROLLER = "ghost-controller"
    """A broker that finds its own name in /controller does not become controller. KAFKA-13407, open."""
    POISONED_BATCH = "poisoned-batch"
    """A term cut short leaves its half-filled request batch to the next one. KAFKA-12315, open."""
    CONTEXT_KEPT = "context-kept"
    """A resigned controller continues with its old context after another election. KAFKA-4447, 5310, fixed in 0.11."""
    LEADER_AND_ISR_FIRST = "leader-and-isr-first"
    """A new controller sends LeaderAndIsr before brokers know the live brokers. KAFKA-4443, fixed in 0.10.2."""
    FOREIGN_EPHEMERAL = "foreign-ephemeral"
    """A broker gives up if its registration was made by an unknown session of its own. KAFKA-14845, open."""
    NO_BROKER_EPOCH = "no-broker-epoch"
    """Control requests and the controller's context carry no broker epochs. KAFKA-7235, KIP-380, fixed in 2.2."""
    NO_MEMBER_EPOCHS = "no-member-epochs"
    """AlterPartition does not check the epochs of the members it adds.  KAFKA-14617, KIP-903, open."""
    ISR_WITH_LEAVING_BROKER = "isr-with-leaving-broker"
    """A broker that is shutting down, or gone, may join an ISR.  KAFKA-14140, KIP-841, fixed in 3.3."""
    LAST_REPLICA_STANDING = "last-replica-standing"
    """The last member of an ISR leads again, whatever it lost, even if others have all records. KIP-966, open."""
    EMPTY_ISR = "empty-isr"
    """The last member of an ISR is removed too.  KAFKA-708, 5083, fixed in 0.11."""
    DIRECT_ZOOKEEPER_ISR = "direct-zookeeper-isr"
    """Leaders write their ISR into ZooKeeper themselves, from a cached version.  KAFKA-2729, replaced in 2.7."""
    OWN_ISR_WRITE_UNKNOWN = "own-isr-write-unknown"
    """Together with `direct-zookeeper-isr`: a leader that repeats a write does not see that the first one succeeded.
    KAFKA-1382, fixed in 0.8.2."""
    TRUNCATE_TO_HIGH_WATERMARK = "truncate-to-high-watermark"
    """A new follower truncates to its high watermark.  KAFKA-1211, KIP-101, fixed in 0.11."""
    TRUNCATE_KIP_101 = "truncate-kip-101"
    """A follower asks for its last epoch once and truncates to the answer.  KAFKA-6361, KIP-279, fixed in 2.0."""
    NO_LEADER_EPOCH_IN_FETCH = "no-leader-epoch-in-fetch"
    """Leaders do not fence fetches of another leader epoch.  KAFKA-6880, KIP-320, fixed in 2.1."""
    NO_EPOCH_START_CHECK = "no-epoch-start-check"
    """A follower joins the ISR before it has reached the leader's epoch start.  KAFKA-7128, fixed in 2.1."""
    HIGH_WATERMARK_UNDER_MIN_ISR = "high-watermark-under-min-isr"
    """The high watermark advances while the ISR is below min.insync.replicas.  KAFKA-15583, fixed in 3.7."""


NO_HISTORY: frozenset[Historical] = frozenset()
"""Today's behaviour."""
