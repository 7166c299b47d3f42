"""What the replicas of a broker are handed: whose they are, what they reach, and where their logs lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zabka.broker_sim.ports import ControllerGate, LogDirectory, MetadataView, ReachedMarks
from zabka.ensemble.ports import Runtime
from zabka.kafka.ports import BrokerChannel, Emit


def _seen_nothing() -> int:
    return 0


def _do_nothing() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """Which broker this is, and in which of its lives."""

    broker_id: int
    broker_epoch: Callable[[], int]
    """Gives the czxid of the broker's present registration, -1 while there is none."""
    controller_epoch_seen: Callable[[], int] = _seen_nothing
    """Gives the highest controller epoch that the broker knows of from the ensemble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """What replicas reach: time, other brokers, the controller, what is known of the cluster, and the journal."""

    runtime: Runtime
    channel: BrokerChannel
    controller: ControllerGate
    metadata: MetadataView
    emit: Emit


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStorage:
    """Where logs lie."""

    log_directories: Sequence[LogDirectory]
    """In the order of log.dirs; at least one."""
    log_dir_failed: Callable[[], None] = _do_nothing
    """Called after a log directory was taken offline, with all that lay in it."""
    high_watermarks_reached: ReachedMarks = dict
    """Returns the high watermarks that this broker's journal shows its replicas to have reached."""
