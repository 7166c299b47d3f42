"""The log of a broker's process. Does real I/O.

It contains messages for people. A message is written if its logger's level allows it.
"""

from __future__ import annotations

import msgspec
import structlog

from zabka.broker_sim import loggers
from zabka.broker_sim.loggers import LoggerLevels
from zabka.journal.event import Event, Level
from zabka.journal.events import GroupChanged

_LOGGER_OF_MODULE = {
    "zabka.journal.events.broker": loggers.REPLICAS,
    "zabka.journal.events.controller": loggers.CONTROLLER,
}


class ProcessLog:
    """Writes messages to the process's log.

    `levels` is consulted for each message, so that a change of a level applies immediately.
    """

    def __init__(self, log: structlog.BoundLogger, levels: LoggerLevels) -> None:
        self._log = log
        self._levels = levels

    def info(self, logger: str, text: str, **fields: object) -> None:
        """Log a message at INFO."""
        if self._levels.is_enabled(logger, loggers.INFO):
            self._log.info(text, **fields)

    def warning(self, logger: str, text: str, **fields: object) -> None:
        """Log a message at WARN."""
        if self._levels.is_enabled(logger, loggers.WARN):
            self._log.warning(text, **fields)

    def error(self, logger: str, text: str, **fields: object) -> None:
        """Log a message at ERROR."""
        if self._levels.is_enabled(logger, loggers.ERROR):
            self._log.error(text, **fields)

    def event(self, event: Event) -> None:
        """Log a journal event at DEBUG, or at TRACE if only `zabka.journal.level=full` includes it."""
        if not self._levels.prints_events:
            return
        level = loggers.TRACE if event.level is Level.FULL else loggers.DEBUG
        if self._levels.is_enabled(_logger_of(event), level):
            self._log.debug(msgspec.json.encode(event).decode())


def _logger_of(event: Event) -> str:
    if isinstance(event, GroupChanged):
        return loggers.GROUPS
    return _LOGGER_OF_MODULE.get(type(event).__module__, loggers.SERVER)
