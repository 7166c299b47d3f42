"""Events of a controller: its term, its decisions, and its rejected writes."""

from __future__ import annotations

from zabka.journal.event import Event


class ControllerElected(Event):
    """This broker created /controller and incremented /controller_epoch in one transaction."""

    broker_id: int
    controller_epoch: int
    zk_version: int
    zxid: int = 0
    caused_by: str = ""


class ControllerReady(Event):
    """A new controller has loaded the cluster's state and sent its first decisions.

    The durations are parts of the failover time.
    """

    broker_id: int
    controller_epoch: int
    read_ms: int
    decide_ms: int


class ControllerPropagated(Event):
    """Every broker has responded to the requests that a new controller sent during the failover.

    This is the last stage of a failover. Other events show the earlier stages: detection ends with `session_expired`,
    election with `controller_elected`; `controller_ready` has the durations of reading and deciding.
    """

    broker_id: int
    controller_epoch: int
    brokers: int
    propagate_ms: int


class ControllerResigned(Event):
    """This broker resigned as controller. `reason`: session_expired, controller_moved, illegal_state or shutdown."""

    broker_id: int
    controller_epoch: int
    reason: str
    caused_by: str = ""


class ControllerEventFailed(Event):
    """A controller could not process an event, or found invalid data in ZooKeeper; `problem` describes it.

    After an unexpected failure the controller resigns.
    """

    broker_id: int
    controller_epoch: int
    event: str
    problem: str


class WriteFenced(Event):
    """ZooKeeper rejected a controller's write.

    `reason` is controller_epoch (/controller_epoch had changed) or session_expired (the session that owned /controller
    has ended, and therefore the controller's term as well). The write required that the znode /controller_epoch still
    had version `epoch_version`, at which its value was `controller_epoch`. ZooKeeper's reply does not contain the
    current value.
    """

    broker_id: int
    controller_epoch: int
    operation: str
    path: str
    reason: str = "controller_epoch"
    epoch_version: int = -1


class BrokerLivenessChanged(Event):
    """The controller's set of live brokers changed."""

    controller_epoch: int
    live: list[int]
    added: list[int]
    bounced: list[int]
    removed: list[int]
    ended: list[tuple[int, str]] = []
    """For each broker that was removed or has bounced, a reference to the event that ended its registration."""
    caused_by: str = ""


class LeaderElected(Event):
    """The controller wrote a partition's state with a new leader epoch. Leader -1 means that there is no leader.

    `zxid` is the write's transaction, as in ControllerElected and IsrChanged, so that all these events can be ordered.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: list[int]
    replicas: list[int]
    partition_epoch: int
    controller_epoch: int
    unclean: bool
    cause: str
    zxid: int = 0
    eligible: list[int] = []
    """Eligible leader replicas: they are not in the ISR, but have all committed records."""
    recovering: bool = False
    """Whether no leader has changed the ISR since the last unclean election (KIP-704)."""
    previous: int = -1
    """Previous leader, as far as the controller knew."""
    candidates: list[tuple[int, str]] = []
    """Every replica with its status in this election, in the order of the assignment.

    The statuses are elected, available (an earlier or preferred replica was elected), not_in_sync, not_alive,
    offline_directory and shutting_down.
    """
    caused_by: str = ""


class AssignmentChanged(Event):
    """The controller wrote the assignment of a partition, that is, its replicas.

    `adding` and `removing` are empty unless the partition is being reassigned. During a reassignment `replicas`
    contains both the target and the original replicas.
    """

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    controller_epoch: int
    zxid: int


class TopicCreated(Event):
    """The controller processed a new topic. `assignment` maps each partition to its replicas."""

    topic: str
    topic_id: str
    assignment: dict[int, list[int]]
    caused_by: str = ""


class TopicDeleted(Event):
    """A topic was deleted, and its znodes no longer exist."""

    topic: str
    caused_by: str = ""


class ConfigChanged(Event):
    """The config overrides of a topic or broker changed. `entity` is topics/T or brokers/N."""

    entity: str
    config: dict[str, str]
