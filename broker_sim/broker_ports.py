"""Ports of a broker. Its environment provides them: a process on this machine, or the simulated world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from zabka.broker_sim.configs.dynamic_tls import ListenerStores, NoStores
from zabka.broker_sim.ports import LogDirectory, ReachedMarks
from zabka.broker_sim.quotas.connection_limits import Resolve
from zabka.ensemble.client.service import CoordinationService
from zabka.ensemble.ports import Runtime
from zabka.ensemble.request_fault_uses import CountUse, SharedCounts
from zabka.kafka.ports import BrokerChannel, Emit


def _ignore_line(_: str) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """The interfaces through which a broker accesses its environment."""

    runtime: Runtime
    coordination: Callable[[], CoordinationService]
    """Creates the broker's ZooKeeper session. Called once."""
    channel: BrokerChannel
    """Channel to the other brokers."""
    log_directories: Sequence[LogDirectory]
    """At least one log directory, in the order of log.dirs."""
    emit: Emit
    """Receives the journal events of the broker."""
    log_line: Callable[[str], None] = _ignore_line
    """Receives the few messages that the broker prints on the console."""
    halt: Callable[[str], None] = _ignore_line
    """Ends the process immediately, for the given reason, when no usable log directory is left."""
    high_watermarks_reached: ReachedMarks = dict
    """Returns the highest known high watermark of each replica of this broker, from the broker's journal."""
    count_use: CountUse = field(default_factory=lambda: SharedCounts().count)
    """Counts how often request faults were injected, in total for all nodes."""
    stores: ListenerStores = field(default_factory=NoStores)
    """The key stores and trust stores of the open listeners."""
    resolve: Resolve = str
    """Resolves a host name of a connection limit to an IP address."""
