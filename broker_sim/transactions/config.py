"""Settings of the transaction coordinator and of `__transaction_state`, under Kafka's own key names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zabka.broker_sim.configs.broker_config import KafkaConfig


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """A transaction coordinator's settings.

    Each field is named like a Kafka key, with underscores for dots; the defaults are those of Kafka 3.9.
    """

    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60_000
    transaction_max_timeout_ms: int = 15 * 60_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 60 * 60_000
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_segment_bytes: int = 100 * 1024 * 1024
    transaction_state_log_load_buffer_size: int = 5 * 1024 * 1024
    transaction_state_log_min_isr: int = 2
    request_timeout_ms: int = 30_000

    @property
    def topic_configs(self) -> Mapping[str, str]:
        """The overrides with which `__transaction_state` is created
        (TransactionStateManager.transactionTopicConfigs).
        """
        return {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(self.transaction_state_log_min_isr),
            "segment.bytes": str(self.transaction_state_log_segment_bytes),
        }


def transaction_config(config: KafkaConfig) -> TransactionConfig:
    """Return the settings of the transaction coordinator from a broker's configuration."""
    return TransactionConfig(
        transactional_id_expiration_ms=config.number("transactional.id.expiration.ms"),
        transaction_max_timeout_ms=config.number("transaction.max.timeout.ms"),
        transaction_abort_timed_out_transaction_cleanup_interval_ms=config.number(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=config.number(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
        transaction_state_log_num_partitions=config.number("transaction.state.log.num.partitions"),
        transaction_state_log_replication_factor=config.number("transaction.state.log.replication.factor"),
        transaction_state_log_segment_bytes=config.number("transaction.state.log.segment.bytes"),
        transaction_state_log_load_buffer_size=config.number("transaction.state.log.load.buffer.size"),
        transaction_state_log_min_isr=config.number("transaction.state.log.min.isr"),
        request_timeout_ms=config.number("request.timeout.ms"),
    )
