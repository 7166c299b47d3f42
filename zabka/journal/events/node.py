"""What any node writes, whatever its role: its life, its process, the faults that it feels, and what broke."""

from __future__ import annotations

from zabka.journal.event import Event


class NodeStarted(Event):
    """A peer, a broker or a service began to run; `config` holds its effective configuration."""

    role: str
    id: int
    config: dict[str, str]


class NodeStopped(Event):
    """A node ends by its own decision; `reason` says why ("shutdown" when it was asked to)."""

    reason: str


class TaskFailed(Event):
    """A task that goes on for as long as its node ended, for that reason; it is begun again."""

    task: str
    reason: str


class ProcessChanged(Event):
    """The host agent saw or made a process change: `process` is running, paused or down."""

    target: str
    process: str
    pid: int | None
    action: str


class FaultInjected(Event):
    """From now on this fault holds: a link cut or delayed, or (simulated) crash, power_loss, pause, slow_disk, or one
    of a disk: fsync_fails, fsync_stalls, disk_full, bit_flipped, log_dir_fails, log_dir_full, disk_replaced."""

    fault_id: str
    kind: str
    source: str
    target: str
    both_ways: bool
    delay_ms: int = 0


class FaultRemoved(Event):
    """The fault of that id holds no longer."""

    fault_id: str


class PeerProtocolBroken(Event):
    """The other side of a connection broke the protocol and was dropped; of `count` that were since the last such
    event, this one is the last."""

    remote: str
    reason: str
    count: int = 1


class InvariantViolated(Event):
    """An invariant did not hold at this point of a history."""

    invariant: str
    detail: str
