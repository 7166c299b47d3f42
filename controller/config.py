"""The settings of a broker's configuration that the controller uses."""

from __future__ import annotations

from dataclasses import dataclass

from zabka.controller.historical import NO_HISTORY, Historical

EVENTS_QUEUED_MAX = 10_000
"""If this many events are queued, requests are rejected as if this broker were not the controller."""
REQUESTS_QUEUED_MAX = 10_000
"""Maximum number of control requests queued for one broker.

Exceeding it is an illegal state, which ends the controller term.
"""


@dataclass(slots=True)
class ControllerConfig:
    """Kafka's configuration keys that the controller uses, with Kafka's defaults.

    If a dynamic default changes, the broker modifies the field in place.
    """

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
    """The listener for connections between brokers, or "" for the first one of each broker."""
    control_plane_listener_name: str = ""
    """The listener that receives control requests, or "" if it is the one for connections between brokers."""

    historical: frozenset[Historical] = NO_HISTORY
    """zabka.historical: old behaviours that are enabled."""
    first_rebalance_check_ms: int = 5_000
    """Delay of the first imbalance check after an election (KafkaController.onControllerFailover)."""
    request_retry_backoff_ms: int = 100
    """Delay between two attempts of one control request (RequestSendThread)."""
    registration_retry_ms: int = 1_000
    """Delay between two attempts to register while another session still has the registration of this broker's id."""
    sit_out_ms: int = 1_000
    """After an illegal state, this broker waits this long before it takes part in an election."""
    shutdown_wait_ms: int = 2_000
    """Maximum time that a shutdown waits for the current event. After that, the event is cancelled."""
