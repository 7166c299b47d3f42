"""What a broker is handed by whoever runs it: a process on this machine, or the simulated world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zabka.broker_sim.ports import LogDirectory, ReachedMarks
from zabka.broker_sim.quotas.connection_limits import Resolve
from zabka.ensemble.client.service import CoordinationService
from zabka.ensemble.ports import Runtime
from zabka.kafka.ports import BrokerChannel, Emit


def _say_nothing(_: str) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """Everything of a broker that is not itself."""

    runtime: Runtime
    coordination: Callable[[], CoordinationService]
    """Makes the session with the ensemble; called once."""
    channel: BrokerChannel
    """To the other brokers."""
    log_directories: Sequence[LogDirectory]
    """In the order of log.dirs; at least one."""
    emit: Emit
    """Where the broker's events go."""
    say: Callable[[str], None] = _say_nothing
    """Gets the few lines that a person at the console should see."""
    halt: Callable[[str], None] = _say_nothing
    """Ends the process at once, for the reason given: no log directory is left to work with."""
    high_watermarks_reached: ReachedMarks = dict
    """Returns the high watermarks that this broker's journal shows its replicas to have reached."""
    resolve: Resolve = str
    """Finds the addresses of hosts that limits of connections name."""
