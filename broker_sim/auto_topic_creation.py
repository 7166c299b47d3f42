"""Automatic topic creation after a client's Metadata request (kafka.server.AutoTopicCreationManager)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from zabka.broker_sim.admin import NewTopic, ZkAdminManager
from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.groups.config import CONSUMER_OFFSETS, GroupConfig
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.quotas.controller_mutations import MutationQuota
from zabka.broker_sim.transactions.config import TransactionConfig
from zabka.ensemble.ports import Runtime
from zabka.kafka.topic_names import INTERNAL_TOPICS, TRANSACTION_STATE

CREATING_MAX = 100
"""Maximum number of automatic creations in flight."""


class AutoTopicCreation:
    """Creates topics with the broker's defaults, one task per topic.

    The created partitions are charged to the quota `mutations`.
    """

    def __init__(
        self,
        config: KafkaConfig,
        group_config: GroupConfig,
        transaction_config: TransactionConfig,
        runtime: Runtime,
        metadata: MetadataCache,
        admin: ZkAdminManager,
        mutations: MutationQuota,
    ) -> None:
        self._config = config
        self._group_config = group_config
        self._transaction_config = transaction_config
        self._runtime = runtime
        self._metadata = metadata
        self._admin = admin
        self._mutations = mutations
        self._creating: dict[str, None] = {}

    def create(self, topic: str, client_id: str, user: str) -> ErrorCode:
        """Start to create a topic because a client of this user requested its metadata.

        Return the error to send until the topic exists, or the error if the topic cannot be created.
        """
        new_topic = self._new_topic(topic)
        if topic not in INTERNAL_TOPICS and not self._config.flag("auto.create.topics.enable"):
            return ErrorCode.unknown_topic_or_partition
        if new_topic.replication_factor > len(self._metadata.brokers()):
            return ErrorCode.invalid_replication_factor
        if topic not in self._creating and len(self._creating) < CREATING_MAX:
            self._creating[topic] = None
            self._runtime.spawn(self._create(new_topic, client_id, user), f"create topic {topic}")
        return ErrorCode.leader_not_available

    def _new_topic(self, topic: str) -> NewTopic:
        """Return the topic to create, with its settings. Internal topics have their own mandatory settings."""
        if topic == CONSUMER_OFFSETS:
            config = self._group_config
            count, factor = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
            return NewTopic(topic, count, factor, {}, config.offsets_topic_configs)
        if topic == TRANSACTION_STATE:
            of = self._transaction_config
            count, factor = of.transaction_state_log_num_partitions, of.transaction_state_log_replication_factor
            return NewTopic(topic, count, factor, {}, of.topic_configs)
        config_default = self._config.number("default.replication.factor")
        return NewTopic(topic, -1, config_default, {}, {})

    async def _create(self, new_topic: NewTopic, client_id: str, user: str) -> None:
        try:
            timeout_ms = self._config.number("request.timeout.ms")
            # The client did not request the creation explicitly. So the creation is charged to the client's quota, but
            # is never rejected because of it.
            count = self._mutations.permissive(client_id, user).record
            await self._admin.create_topics([new_topic], timeout_ms, validate_only=False, count=count, client=client_id)
        finally:
            del self._creating[new_topic.name]
