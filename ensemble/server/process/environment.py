"""Environment of a peer's process except its event loop: the parts that a simulated world replaces."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import structlog

from zabka.ensemble.request_fault_uses import CountUse
from zabka.ensemble.runtime.files import Files
from zabka.ensemble.runtime.workers import Workers
from zabka.ensemble.server.operator.running_peer import RunningPeer
from zabka.ensemble.tree.service import Service
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.journal.message_log import MessageNotes
from zabka.journal.writer import Journal


class PeerEnvironment(NamedTuple):
    """Log, journal, random source, disk, workers and monotonic clock of one process.

    `started` is called when the peer runs and its ports are open.
    """

    log: structlog.BoundLogger
    journal: Journal
    random: Random
    nonce: Callable[[], str]
    files: Files
    workers: Workers
    clock_ns: Callable[[], int]
    started: Callable[[RunningPeer], None]
    make_service: Callable[[EnsembleConfig, Callable[[], str]], Service] = Service
    """Creates the service for clients, given the ensemble's settings and a function that returns nonces."""
    count_use: CountUse | None = None
    """Increments the counts of request faults that the host's nodes share.

    If None, the counts are in files, whose directory the host agent provides.
    """
    messages: MessageNotes | None = None
    """Message recorder; None if messages are not recorded."""
