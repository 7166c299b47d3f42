"""Levels of a broker's loggers, which BROKER_LOGGER resources describe and alter (RuntimeLoggerManager).

A logger has the name of the Kafka class that logs the same messages. A logger without its own level inherits the level
of its nearest ancestor by name, or of the root (Log4jController). As in Kafka, levels are kept in memory and are lost
when the process ends.

| level | what a logger writes |
|---|---|
| FATAL, ERROR | requests that failed because of an error in the broker, failed authentication to another broker |
| WARN | dropped connections, damage on the disk, an ensemble that does not respond |
| INFO | start, registration, shutdown |
| DEBUG | journal events |
| TRACE | journal events that are only journalled with `zabka.journal.level=full` |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.configs.config_resources import Alteration, Operation
from zabka.broker_sim.refusals import Refused

ROOT = "root"
SERVER = "kafka.server.KafkaServer"
REQUESTS = "kafka.server.KafkaApis"
REPLICAS = "kafka.server.ReplicaManager"
CONNECTIONS = "kafka.network.SocketServer"
LOGS = "kafka.log.LogManager"
CONTROLLER = "kafka.controller.KafkaController"
GROUPS = "kafka.coordinator.group.GroupCoordinator"
NAMES = (CONTROLLER, GROUPS, LOGS, CONNECTIONS, REQUESTS, SERVER, REPLICAS)
"""The names of all loggers except the root."""

TRACE, DEBUG, INFO, WARN, ERROR, FATAL = "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"
_LEVELS = (TRACE, DEBUG, INFO, WARN, ERROR, FATAL)


class LoggerLevels:
    """The level of each logger. The root's initial level is INFO."""

    def __init__(self) -> None:
        self._levels: dict[str, str | None] = {ROOT: INFO, **dict.fromkeys(NAMES)}
        self._prints_events = False

    @property
    def prints_events(self) -> bool:
        """Whether the level of any logger is DEBUG or TRACE, so that it logs journal events."""
        return self._prints_events

    def names(self) -> Iterable[str]:
        """Return every logger, the root first."""
        return self._levels

    def level(self, name: str) -> str:
        """Return a logger's effective level, its own or inherited."""
        while (level := self._levels.get(name)) is None:
            parent, dot, _ = name.rpartition(".")
            name = parent if dot else ROOT
        return level

    def is_enabled(self, name: str, level: str) -> bool:
        """Return whether a logger logs messages of this level."""
        return _LEVELS.index(level) >= _LEVELS.index(self.level(name))

    def alter(self, alterations: Sequence[Alteration], validate_only: bool) -> list[str]:
        """Set and remove levels, all or none. Return a message about each change.

        Raises Refused with Kafka's message.
        """
        for alteration in alterations:
            self._validate(alteration)
        if validate_only:
            return []
        lines = []
        for name, operation, level in alterations:
            is_set = operation == Operation.SET
            self._levels[name] = level if is_set else None
            lines.append(f"Updated the log level of {name} to {level}" if is_set else f"Unset the log level of {name}")
        self._prints_events = any(self.is_enabled(name, DEBUG) for name in NAMES)
        return lines

    def _validate(self, alteration: Alteration) -> None:
        name, operation, level = alteration
        if operation not in (Operation.SET, Operation.DELETE):
            what = f"Unknown operation type {operation} is"
            if operation in (Operation.APPEND, Operation.SUBTRACT):
                what = f"{Operation(operation).name} operation is"
            raise Refused(KafkaError.invalid_request, f"{what} not allowed for the BROKER_LOGGER resource")
        if name not in self._levels:
            raise Refused(KafkaError.invalid_config, f"Logger {name} does not exist!")
        if operation == Operation.SET and level not in _LEVELS:
            raise Refused(
                KafkaError.invalid_config,
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(_LEVELS))}",
            )
        if operation == Operation.DELETE and name == ROOT:
            raise Refused(KafkaError.invalid_request, "Removing the log level of the root logger is not allowed")
