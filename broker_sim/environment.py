"""Interfaces that a broker's process uses besides the event loop.

A real host or the simulator implements them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

import structlog

from zabka.broker_sim.broker import Broker
from zabka.ensemble.request_fault_uses import CountUse
from zabka.ensemble.runtime.files import Files
from zabka.ensemble.runtime.links import FaultTable
from zabka.ensemble.runtime.workers import Workers
from zabka.journal.message_log import MessageNotes
from zabka.journal.writer import Journal


class BrokerEnvironment(NamedTuple):
    """A broker process's log, journal, disk, worker threads, source of randomness, and way to exit."""

    log: structlog.BoundLogger
    journal: Journal
    files: Files
    workers: Workers
    exit: Callable[[int, str], NoReturn]
    """Ends the process immediately with this exit code, like a crash. The message is for the user."""
    made: Callable[[Broker, Callable[[FaultTable], None]], object]
    """Called before the broker starts, with the broker and the function that applies faults to its process."""
    started: Callable[[], object]
    """Called once the broker is registered."""
    nonce: Callable[[], str]
    """Returns unpredictable strings, for SCRAM."""
    random_seed: int | None = None
    """Seed of the broker's random choices. If it is None, the system's randomness is used."""
    count_use: CountUse | None = None
    """Counts how often request faults were injected, in total for all nodes. If it is None, the counts are stored in
    the file that the agent specifies.
    """
    messages: MessageNotes | None = None
    """Receives all sent and received messages, if they are recorded."""
