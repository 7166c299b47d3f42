"""min.insync.replicas of each topic as committed by the ensemble, and the earlier values that brokers may still use.

A broker learns of a change within a limited time.  A broker that keeps its session receives the watch event within one
session timeout, and has read the new value within another session timeout.  A broker that has just registered, or has
just learned of the topic, may use any earlier value, including the default.
"""

from __future__ import annotations

from collections.abc import Mapping

MINIMUM = "min.insync.replicas"
TOPICS, BROKERS = "topics/", "brokers/"


class Minimums:
    """Values of min.insync.replicas of every topic over time. Times are virtual microseconds."""

    def __init__(self, default: int, session_timeout_ms: int) -> None:
        """Create the state. `default` is the value of min.insync.replicas in every server.properties."""
        self._default = default
        self._patience_us = 2 * session_timeout_ms * 1000
        self._values: dict[str, list[tuple[int, int | None]]] = {}
        """Values of each entity (topics/T, brokers/N), each with its start time. None means no override."""
        self._registered: dict[int, int] = {}
        self._known: dict[tuple[int, str], int] = {}
        """Time at which each broker's process learned of each topic."""

    # -- events ------------------------------------------------------------------------------------------------------

    def configured(self, entity: str, overrides: Mapping[str, str], now_us: int) -> None:
        """Process a write to /config/{entity}.  `overrides` is empty if the znode was deleted."""
        text = overrides.get(MINIMUM, "")
        self._values.setdefault(entity, []).append((now_us, int(text) if text.isdecimal() else None))

    def registered(self, broker: int, now_us: int) -> None:
        """Process the registration of a broker."""
        self._registered[broker] = now_us

    def gone(self, broker: int) -> None:
        """Process the deletion of a broker's registration."""
        self._registered.pop(broker, None)

    def started(self, broker: int) -> None:
        """Process the start of a broker's process, which knows no topics yet."""
        self._known = {known: since for known, since in self._known.items() if known[0] != broker}

    def heard(self, broker: int, topic: str, now_us: int) -> None:
        """Record that a broker has learned of a topic."""
        self._known.setdefault((broker, topic), now_us)

    # -- checks ------------------------------------------------------------------------------------------------------

    def least(self, broker: int, topic: str, now_us: int) -> int:
        """Return the lowest value of min.insync.replicas for a topic that a broker is allowed to use now."""
        since_us = now_us - self._patience_us
        reported_until_us = max(self._registered.get(broker, now_us), self._known.get((broker, topic), now_us))
        every = list(self._held(f"{TOPICS}{topic}", since_us if reported_until_us <= since_us else -1))
        if None in every:
            every += [
                value for entity in self._values if entity.startswith(BROKERS) for value in self._held(entity, -1)
            ]
            every.append(self._default)
        return min(value for value in every if value is not None)

    def _held(self, entity: str, since_us: int) -> list[int | None]:
        """Return all values that an entity has had since `since_us`. None means no override."""
        values: list[tuple[int, int | None]] = [(-1, None), *self._values.get(entity, ())]
        ends = [begin for begin, _ in values[1:]]
        return [value for (_, value), end in zip(values, [*ends, since_us + 1], strict=True) if end > since_us]
