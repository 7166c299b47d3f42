"""Writes the log lines of a test's programs to the journal of their world."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from zabka.journal.events import ProgramLogged
from zabka.simulation.cluster.world import World
from zabka.simulation.engine.refusal import LIBRARIES

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
"""Matches the memory address of an object in a log line, which differs between two runs with the same history."""


class _ToJournal(logging.Handler):
    """Log handler that writes the running program's log lines to the journal.

    It writes lines of level INFO or higher. Of the lines of libraries, it writes only warnings and errors.
    """

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        turn = self._world.ground.turn.taker
        if turn is None or (record.levelno < logging.WARNING and record.pathname.startswith(LIBRARIES)):
            return
        for machine in self._world.services:
            if machine.process is not None and machine.process.loop is turn:
                message = _ADDRESS.sub("0x…", self.format(record))
                machine.write(ProgramLogged(record.levelname, record.name, message))
                return


@contextmanager
def logged_to_journal(world: World) -> Iterator[None]:
    """During a `with` block, write programs' log lines to the journal, and to no other handler of the root logger."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = [_ToJournal(world)]
    root.setLevel(min(level, logging.INFO) if level else logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
