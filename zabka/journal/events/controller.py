"""What a controller writes: its reign, what it decided, and what was refused to it."""

from __future__ import annotations

from zabka.journal.event import Event


class ControllerElected(Event):
    """This broker created /controller and bumped /controller_epoch in one transaction."""

    broker_id: int
    controller_epoch: int
    zk_version: int
    zxid: int = 0
    caused_by: str = ""


class ControllerReady(Event):
    """The new controller has loaded the state and sent its first decisions.  Durations split the failover."""

    broker_id: int
    controller_epoch: int
    read_ms: int
    decide_ms: int


class ControllerPropagated(Event):
    """Every broker has answered what a new controller told it while it took over.

    The last stage of a failover.  The others are in the journal too: detection ends with `session_expired`, election
    with `controller_elected`; `controller_ready` says how long reading and deciding took.
    """

    broker_id: int
    controller_epoch: int
    brokers: int
    propagate_ms: int


class ControllerResigned(Event):
    """This broker stopped being controller: reason session_expired, controller_moved, illegal_state or shutdown."""

    broker_id: int
    controller_epoch: int
    reason: str
    caused_by: str = ""


class ControllerEventFailed(Event):
    """A controller's event could not be processed, or met something that nobody should have written: `problem` says
    what.  An unexpected failure is followed by its resignation."""

    broker_id: int
    controller_epoch: int
    event: str
    problem: str


class WriteFenced(Event):
    """A controller's write was refused: `reason` controller_epoch (/controller_epoch had moved on), or session_expired
    (the session that held /controller is over, and the reign with it).

    The write asked for the version `epoch_version` of /controller_epoch, which held `controller_epoch`; what it holds
    now was not told with the refusal.
    """

    broker_id: int
    controller_epoch: int
    operation: str
    path: str
    reason: str = "controller_epoch"
    epoch_version: int = -1


class BrokerLivenessChanged(Event):
    """The controller's view of who is alive."""

    controller_epoch: int
    live: list[int]
    added: list[int]
    bounced: list[int]
    removed: list[int]
    ended: list[tuple[int, str]] = []
    """Of each that is gone or came back: what ended its registration."""
    caused_by: str = ""


class LeaderElected(Event):
    """The controller wrote a partition's state with a new leader epoch; leader -1 means none (offline).

    `zxid` is the write's transaction, as in ControllerElected and IsrChanged: it orders them all.
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
    """Outside the ISR, with all that was committed."""
    recovering: bool = False
    """Has no leader changed the ISR since the last unclean election (KIP-704)?"""
    previous: int = -1
    """Who led before, as the controller knew it."""
    candidates: list[tuple[int, str]] = []
    """Where a leader was chosen: every replica, in the order of the assignment, with what spoke for or against it:
    elected, available (another came first, or is preferred), not_in_sync, not_alive, offline_directory or
    shutting_down."""
    caused_by: str = ""


class AssignmentChanged(Event):
    """The controller wrote a partition's replicas; `adding` and `removing` are empty unless it is being reassigned.

    While it is, `replicas` holds the target and the origin together.
    """

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    controller_epoch: int
    zxid: int


class TopicCreated(Event):
    """The controller took a new topic on; `assignment` maps partition to replicas."""

    topic: str
    topic_id: str
    assignment: dict[int, list[int]]
    caused_by: str = ""


class TopicDeleted(Event):
    """A topic is gone, znodes and all."""

    topic: str
    caused_by: str = ""


class ConfigChanged(Event):
    """The overrides of a topic or broker are now these (`entity` is topics/T or brokers/N)."""

    entity: str
    config: dict[str, str]
