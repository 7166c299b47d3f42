"""What a broker's process takes from where it runs, beside its event loop: what differs between a host and a world
(shell)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

import structlog

from zabka.broker_sim.broker import Broker
from zabka.ensemble.runtime.files import Files
from zabka.ensemble.runtime.workers import Workers
from zabka.journal.message_log import MessageNotes
from zabka.journal.writer import Journal


class Surroundings(NamedTuple):
    """Log, journal, disk, helping hands, chance, and the ways out of one process."""

    log: structlog.BoundLogger
    journal: Journal
    files: Files
    workers: Workers
    exit: Callable[[int, str], NoReturn]
    """Ends the process at once, with that exit code, as a crash would; the text is for whoever finds it ended."""
    made: Callable[[Broker], object]
    """Hears of the broker, before it does anything."""
    started: Callable[[], object]
    """Is called once the broker is registered."""
    random_seed: int | None = None
    """Fixes what the broker draws; None: the system's randomness."""
    messages: MessageNotes | None = None
    """Takes the messages, where somebody wants them."""
