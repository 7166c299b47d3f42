"""The part of a broker's configuration that the controller reads."""

from __future__ import annotations

from dataclasses import dataclass

from zabka.controller.historical import NO_HISTORY, Historical

EVENTS_QUEUED_MAX = 10_000
"""Requests that find this many events before them are rejected as if there were no controller here."""
REQUESTS_QUEUED_MAX = 10_000
"""Control requests that may wait for one broker; more is an illegal state, and the next controller starts afresh."""


@dataclass(slots=True)
class ControllerConfig:
    """Kafka's keys, with Kafka's defaults. The broker changes a field in place when its dynamic default changes."""

    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    session_timeout_ms: int = 18_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic_enable: bool = True
    zookeeper_max_in_flight_requests: int = 10
    controller_socket_timeout_ms: int = 30_000
    inter_broker_listener_name: str = ""
    """The listener that control requests go to; a broker without it, or "" here, is reached at its first one."""

    historical: frozenset[Historical] = NO_HISTORY
    """zabka.historical: old behaviours that are switched on."""
    first_rebalance_check_ms: int = 5_000
    """KafkaController.onControllerFailover: the first check for imbalance after an election."""
    request_retry_backoff_ms: int = 100
    """Wait between two attempts of one control request (RequestSendThread)."""
    registration_retry_ms: int = 1_000
    """Wait between two attempts to register again while another session still holds this broker's id."""
    sit_out_ms: int = 1_000
    """How long this broker leaves the next election to others after an illegal state."""
    shutdown_wait_ms: int = 2_000
    """How long a shutdown waits for the current event before it cancels it."""
