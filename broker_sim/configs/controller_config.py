"""The part of a broker's configuration that its controller works by."""

from __future__ import annotations

from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.controller.config import ControllerConfig
from zabka.controller.topic_configs import UNCLEAN


def controller_config(config: KafkaConfig) -> ControllerConfig:
    """What the controller reads of a broker's configuration."""
    return ControllerConfig(
        unclean_leader_election_enable=config.flag(UNCLEAN),
        min_insync_replicas=config.min_insync_replicas,
        session_timeout_ms=config.session_timeout_ms,
        auto_leader_rebalance_enable=config.flag("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_seconds=config.number("leader.imbalance.check.interval.seconds"),
        leader_imbalance_per_broker_percentage=config.number("leader.imbalance.per.broker.percentage"),
        delete_topic_enable=config.flag("delete.topic.enable"),
        zookeeper_max_in_flight_requests=config.number("zookeeper.max.in.flight.requests"),
        controller_socket_timeout_ms=config.number("controller.socket.timeout.ms"),
        inter_broker_listener_name=config.inter_broker_listener,
        historical=config.historical,
    )
