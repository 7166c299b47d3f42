"""What a replica manager receives at its creation: the broker's identity, its ports, and its log directories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zabka.broker_sim.ports import ControllerGate, LogDirectory, MetadataView, ReachedMarks
from zabka.broker_sim.replication.transaction_verifier import CoordinatorOf
from zabka.ensemble.ports import Runtime
from zabka.kafka.ports import BrokerChannel, Emit


def _seen_nothing() -> int:
    return 0


def _no_coordinator(_: str) -> None:
    return None


def _do_nothing() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """The identity of a broker and of its current process."""

    broker_id: int
    broker_epoch: Callable[[], int]
    """Returns the czxid of the broker's current registration, or -1."""
    controller_epoch_seen: Callable[[], int] = _seen_nothing
    """Returns the highest controller epoch that the broker has seen in the ensemble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """Ports of the replica manager: time, other brokers, the controller, the cluster's metadata, and the journal."""

    runtime: Runtime
    channel: BrokerChannel
    controller: ControllerGate
    metadata: MetadataView
    emit: Emit
    transaction_coordinator: CoordinatorOf = _no_coordinator
    """Returns the broker that coordinates a transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStorage:
    """The log directories, and callbacks about failed directories and about logs."""

    log_directories: Sequence[LogDirectory]
    """The log directories, in the order of log.dirs. There is at least one."""
    log_dir_failed: Callable[[], None] = _do_nothing
    """Called after a log directory was taken offline with all its logs."""
    high_watermarks_reached: ReachedMarks = dict
    """Returns the highest known high watermark of each replica of this broker, from the broker's journal."""
