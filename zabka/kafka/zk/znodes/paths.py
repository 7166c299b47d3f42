"""Paths of Kafka's znodes (kafka.zk.ZkData)."""

from __future__ import annotations

from zabka.journal.events import TopicPartition

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
BROKER_SEQUENCE_ID = "/brokers/seqid"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
ISR_CHANGE_NOTIFICATION = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION = "/log_dir_event_notification"
LATEST_PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONFIG_CHANGES = "/config/changes"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"
CONFIG_KINDS = ("topics", "clients", "users", "brokers", "ips")

PERSISTENT_PATHS = (
    "/consumers",
    BROKER_IDS,
    BROKER_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGE_NOTIFICATION,
    LATEST_PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    *(f"/config/{kind}" for kind in CONFIG_KINDS),
)
"""Paths that every broker creates when it starts (ZkData.PersistentZkPaths)."""


def broker_path(broker_id: int) -> str:
    """Return /brokers/ids/N."""
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    """Return /brokers/topics/T."""
    return f"{BROKER_TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return /brokers/topics/T/partitions."""
    return f"{BROKER_TOPICS}/{topic}/partitions"


def partition_path(partition: TopicPartition) -> str:
    """Return /brokers/topics/T/partitions/P."""
    return f"{BROKER_TOPICS}/{partition.topic}/partitions/{partition.partition}"


def partition_state_path(partition: TopicPartition) -> str:
    """Return /brokers/topics/T/partitions/P/state."""
    return partition_path(partition) + "/state"


DEFAULT_ENTITY = "<default>"
"""Entity under /config/brokers, users, clients or ips whose config applies to entities without an override."""


def config_path(kind: str, entity: str) -> str:
    """Return /config/{topics,brokers,...}/E."""
    return f"/config/{kind}/{entity}"


def delete_topic_path(topic: str) -> str:
    """Return /admin/delete_topics/T."""
    return f"{DELETE_TOPICS}/{topic}"
