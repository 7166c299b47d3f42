"""What a controller writes besides leaders and ISRs."""

from __future__ import annotations

from journal.event import Event


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


class ControllerPropagated(Event):
    """Every broker has answered what a new controller told it while it took over.

    The last stage of a failover.  The others are in the journal too: detection ends with `session_expired`, election
    with `controller_elected`; `controller_ready` says how long reading and deciding took.
    """

    broker_id: int
    controller_epoch: int
    brokers: int
    propagate_ms: int
