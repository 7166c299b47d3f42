"""Counts and gauges of a controller (Kafka's kafka.controller MBeans).

Counts belong to the process, and continue after the end of a controller term. Gauges belong to the current term, and
are zero without one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from zabka.controller.context import ControllerContext, ReplicaState


class ControllerState(IntEnum):
    """The current activity of a controller (kafka.controller.ControllerState)."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16
    UPDATE_FEATURES = 17


STATE_DURING: dict[str, ControllerState] = {
    "Startup": ControllerState.CONTROLLER_CHANGE,
    "ControllerChange": ControllerState.CONTROLLER_CHANGE,
    "Reelect": ControllerState.CONTROLLER_CHANGE,
    "RegisterBrokerAndReelect": ControllerState.CONTROLLER_CHANGE,
    "Expire": ControllerState.CONTROLLER_CHANGE,
    "ControllerShutdown": ControllerState.CONTROLLER_SHUTDOWN,
    "BrokerChange": ControllerState.BROKER_CHANGE,
    "BrokerModifications": ControllerState.BROKER_CHANGE,
    "TopicChange": ControllerState.TOPIC_CHANGE,
    "PartitionModifications": ControllerState.TOPIC_CHANGE,
    "TopicDeletion": ControllerState.TOPIC_DELETION,
    "TopicDeletionStopReplicaResponseReceived": ControllerState.TOPIC_DELETION,
    "ZkPartitionReassignment": ControllerState.ALTER_PARTITION_REASSIGNMENT,
    "ApiPartitionReassignment": ControllerState.ALTER_PARTITION_REASSIGNMENT,
    "ListPartitionReassignments": ControllerState.LIST_PARTITION_REASSIGNMENT,
    "AutoPreferredReplicaLeaderElection": ControllerState.AUTO_LEADER_BALANCE,
    "ReplicaLeaderElection": ControllerState.MANUAL_LEADER_BALANCE,
    "ControlledShutdown": ControllerState.CONTROLLED_SHUTDOWN,
    "IsrChangeNotification": ControllerState.ISR_CHANGE,
    "AlterPartition": ControllerState.ISR_CHANGE,
    "LeaderAndIsrResponseReceived": ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
    "LogDirEventNotification": ControllerState.LOG_DIR_CHANGE,
    "UncleanLeaderElectionEnable": ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE,
    "TopicUncleanLeaderElectionEnable": ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE,
    "AllocateProducerIds": ControllerState.IDLE,
}
"""The controller state for each event name while the event is processed; idle for other events
(ControllerEvent.state).
"""

RATE_AND_TIME: dict[ControllerState, str] = {
    ControllerState.CONTROLLER_CHANGE: "ControllerChangeRateAndTimeMs",
    ControllerState.BROKER_CHANGE: "LeaderElectionRateAndTimeMs",
    ControllerState.TOPIC_CHANGE: "TopicChangeRateAndTimeMs",
    ControllerState.TOPIC_DELETION: "TopicDeletionRateAndTimeMs",
    ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignmentRateAndTimeMs",
    ControllerState.AUTO_LEADER_BALANCE: "AutoLeaderBalanceRateAndTimeMs",
    ControllerState.MANUAL_LEADER_BALANCE: "ManualLeaderBalanceRateAndTimeMs",
    ControllerState.CONTROLLED_SHUTDOWN: "ControlledShutdownRateAndTimeMs",
    ControllerState.ISR_CHANGE: "IsrChangeRateAndTimeMs",
    ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED: "LeaderAndIsrResponseReceivedRateAndTimeMs",
    ControllerState.LOG_DIR_CHANGE: "LogDirChangeRateAndTimeMs",
    ControllerState.CONTROLLER_SHUTDOWN: "ControllerShutdownRateAndTimeMs",
    ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE: "UncleanLeaderElectionEnableRateAndTimeMs",
    ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE: "TopicUncleanLeaderElectionEnableRateAndTimeMs",
    ControllerState.LIST_PARTITION_REASSIGNMENT: "ListPartitionReassignmentRateAndTimeMs",
}
"""The timer in kafka.controller:type=ControllerStats for each controller state."""


class Timing(NamedTuple):
    """Number of measured executions, and their total and longest duration."""

    times: int = 0
    total_ms: int = 0
    max_ms: int = 0

    def plus(self, took_ms: int) -> Timing:
        """Return the timing with one more run, which took `took_ms`."""
        return Timing(self.times + 1, self.total_ms + took_ms, max(self.max_ms, took_ms))


class ControllerStats:
    """The counts of one broker's controller."""

    def __init__(self) -> None:
        self.state = ControllerState.IDLE
        self.timings: dict[ControllerState, Timing] = dict.fromkeys(RATE_AND_TIME, Timing())
        self.queue_time = Timing()
        """EventQueueTimeMs: how long events waited in the controller's queue."""
        self.unclean_elections = 0
        """UncleanLeaderElectionsPerSec. It is counted when the decision is made; the write that follows may be
        repeated.
        """

    def event_started(self, event: str, waited_ms: int) -> None:
        """Count an event whose processing begins."""
        self.state = STATE_DURING.get(event, ControllerState.IDLE)
        self.queue_time = self.queue_time.plus(waited_ms)

    def event_finished(self, took_ms: int) -> None:
        """Count the current event as processed."""
        if self.state in self.timings:
            self.timings[self.state] = self.timings[self.state].plus(took_ms)
        self.state = ControllerState.IDLE


def gauges(context: ControllerContext | None) -> dict[str, int]:
    """Return the gauges of kafka.controller:type=KafkaController by name.

    All are zero if `context` is None, because there is no controller term.
    """
    if context is None:
        return dict.fromkeys(_NAMES, 0)
    deleting = sorted(context.topics_to_be_deleted)
    states = [
        context.replica_states.get(replica, ReplicaState.NON_EXISTENT)
        for topic in deleting
        for replica in context.replicas_of(context.partitions_of(topic))
    ]
    values = (
        1,
        context.offline_partition_count,
        _imbalanced(context),
        len(context.topics),
        len(context.leadership),
        len(deleting),
        sum(state is not ReplicaState.DELETION_SUCCESSFUL for state in states),
        len(context.topics_ineligible_for_deletion),
        sum(state is ReplicaState.DELETION_INELIGIBLE for state in states),
        len(context.live_or_shutting_down_ids),
        0,
    )
    return dict(zip(_NAMES, values, strict=True))


def mbeans(
    stats: ControllerStats, context: ControllerContext | None, events_queued: int, requests_queued: int
) -> dict[str, dict[str, int]]:
    """Return the MBeans by type and name, as plain numbers.

    A timer is reported as its count, its total time and its longest time, in ms.
    """
    rates = {"UncleanLeaderElectionsPerSec_Count": stats.unclean_elections}
    for state, timing in stats.timings.items():
        rates |= _timer(RATE_AND_TIME[state], timing)
    return {
        "KafkaController": {**gauges(context), "ControllerState": int(stats.state)},
        "ControllerStats": rates,
        "ControllerEventManager": {"EventQueueSize": events_queued, **_timer("EventQueueTimeMs", stats.queue_time)},
        "ControllerChannelManager": {"TotalQueueSize": requests_queued},
    }


def _timer(name: str, timing: Timing) -> dict[str, int]:
    return {f"{name}_Count": timing.times, f"{name}_Sum": timing.total_ms, f"{name}_Max": timing.max_ms}


_NAMES = (
    "ActiveControllerCount",
    "OfflinePartitionsCount",
    "PreferredReplicaImbalanceCount",
    "GlobalTopicCount",
    "GlobalPartitionCount",
    "TopicsToDeleteCount",
    "ReplicasToDeleteCount",
    "TopicsIneligibleToDeleteCount",
    "ReplicasIneligibleToDeleteCount",
    "ActiveBrokerCount",
    "FencedBrokerCount",
)


def _imbalanced(context: ControllerContext) -> int:
    return sum(
        state.leader != context.replicas(partition)[0]
        for partition, state in context.leadership.items()
        if not context.is_being_deleted(partition.topic) and context.replicas(partition)
    )
