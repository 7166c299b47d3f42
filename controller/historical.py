"""Old behaviours of Kafka, keyed by name: known bugs, off by default, which can be enabled to replay their outages.

Enable them with `zabka.historical=truncate-to-high-watermark,no-broker-epoch` in server.properties, or with `--set` on
the command line. Some were fixed in a Kafka release; the behaviours marked as open exist in Kafka 3.9's ZooKeeper mode.
"""

from __future__ import annotations

from enum import StrEnum

HISTORICAL_KEY = "zabka.historical"


class Historical(StrEnum):
    """One old behaviour. The source is the issue that describes it."""

    UNFENCED_CONTROLLER = "unfenced-controller"
    """A controller's writes do not check /controller_epoch. KAFKA-6082, fixed in 2.1."""
    GHOST_CONTROLLER = "ghost-controller"
    """A broker that finds its own id in /controller does not become controller. KAFKA-13407, open."""
    POISONED_BATCH = "poisoned-batch"
    """A term that ends early leaves its half-filled request batch to the next term. KAFKA-12315, open."""
    CONTEXT_KEPT = "context-kept"
    """A controller that resigned continues with its old context when elected again. KAFKA-4447, 5310, fixed in 0.11."""
    LEADER_AND_ISR_FIRST = "leader-and-isr-first"
    """A new controller sends LeaderAndIsr before brokers know the live brokers. KAFKA-4443, fixed in 0.10.2."""
    FOREIGN_EPHEMERAL = "foreign-ephemeral"
    """A broker gives up if an earlier, unknown session of this broker made its registration. KAFKA-14845, open."""
    NO_BROKER_EPOCH = "no-broker-epoch"
    """Control requests and the controller's context contain no broker epochs. KAFKA-7235, KIP-380, fixed in 2.2."""
    NO_MEMBER_EPOCHS = "no-member-epochs"
    """AlterPartition does not check the epochs of the members it adds. KAFKA-14617, KIP-903, open."""
    ISR_WITH_LEAVING_BROKER = "isr-with-leaving-broker"
    """A broker that is shutting down or dead can join an ISR. KAFKA-14140, KIP-841, fixed in 3.3."""
    LAST_REPLICA_STANDING = "last-replica-standing"
    """The last member of an ISR leads again, whatever it lost, even if others have all records. KIP-966, open."""
    EMPTY_ISR = "empty-isr"
    """The last member of an ISR is also removed. KAFKA-708, 5083, fixed in 0.11."""
    DIRECT_ZOOKEEPER_ISR = "direct-zookeeper-isr"
    """Leaders write their ISR into ZooKeeper themselves, from a cached version.  KAFKA-2729, replaced in 2.7."""
    OWN_ISR_WRITE_UNKNOWN = "own-isr-write-unknown"
    """Together with `direct-zookeeper-isr`: a leader that repeats a write does not see that the first one succeeded.
    KAFKA-1382, fixed in 0.8.2."""
    TRUNCATE_TO_HIGH_WATERMARK = "truncate-to-high-watermark"
    """A new follower truncates to its high watermark.  KAFKA-1211, KIP-101, fixed in 0.11."""
    TRUNCATE_KIP_101 = "truncate-kip-101"
    """A follower requests the end offset of its last epoch once, and truncates its log to that offset.

    KAFKA-6361, KIP-279, fixed in 2.0.
    """
    NO_LEADER_EPOCH_IN_FETCH = "no-leader-epoch-in-fetch"
    """Leaders do not fence fetches of another leader epoch.  KAFKA-6880, KIP-320, fixed in 2.1."""
    NO_EPOCH_START_CHECK = "no-epoch-start-check"
    """A follower joins the ISR before it has reached the leader's epoch start.  KAFKA-7128, fixed in 2.1."""
    HIGH_WATERMARK_UNDER_MIN_ISR = "high-watermark-under-min-isr"
    """The high watermark advances while the ISR is below min.insync.replicas.  KAFKA-15583, fixed in 3.7."""


NO_HISTORY: frozenset[Historical] = frozenset()
"""Empty set: no old behaviour is enabled, and the code behaves as in current Kafka."""
