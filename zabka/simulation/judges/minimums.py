"""How many must be in sync of a topic, by the configuration that the quorum has committed, whatever a broker believes.

A broker hears of a change late, but not for ever: whoever keeps its session has heard, within the time that a session
may be silent, of whatever was written before (ZooKeeper's watches), and has read it within as long again.  A broker
that has just registered, or has just heard of the topic, may go by any value there has been, the default among them.
"""

from __future__ import annotations

from collections.abc import Mapping

MINIMUM = "min.insync.replicas"
TOPICS, BROKERS = "topics/", "brokers/"


class Minimums:
    """min.insync.replicas of every topic, as it was at each moment; times are virtual microseconds."""

    def __init__(self, default: int, session_timeout_ms: int) -> None:
        """`default` stands in every server.properties."""
        self._default = default
        self._patience_us = 2 * session_timeout_ms * 1000
        self._values: dict[str, list[tuple[int, int | None]]] = {}
        """For each topic, and for all of what stands for brokers together, since when which value holds; None for
        the one beneath."""
        self._registered: dict[int, int] = {}
        self._known: dict[tuple[int, str], int] = {}
        """Since when a broker's process knows of a topic."""

    # -- what happens ------------------------------------------------------------------------------------------------

    def configured(self, entity: str, overrides: Mapping[str, str], now_us: int) -> None:
        """/config/{entity} was written; no overrides where it was deleted."""
        text = overrides.get(MINIMUM, "")
        self._values.setdefault(entity, []).append((now_us, int(text) if text.isdecimal() else None))

    def registered(self, broker: int, now_us: int) -> None:
        """A broker has a session."""
        self._registered[broker] = now_us

    def gone(self, broker: int) -> None:
        """Its session is over."""
        self._registered.pop(broker, None)

    def started(self, broker: int) -> None:
        """A broker's process begins, and knows of no topic."""
        self._known = {known: since for known, since in self._known.items() if known[0] != broker}

    def heard(self, broker: int, topic: str, now_us: int) -> None:
        """A broker has been told of a topic."""
        self._known.setdefault((broker, topic), now_us)

    # -- what must hold ----------------------------------------------------------------------------------------------

    def least(self, broker: int, topic: str, now_us: int) -> int:
        """The fewest that a broker may go by now."""
        since_us = now_us - self._patience_us
        told_us = max(self._registered.get(broker, now_us), self._known.get((broker, topic), now_us))
        every = list(self._held(f"{TOPICS}{topic}", since_us if told_us <= since_us else -1))
        if None in every:
            every += [
                value for entity in self._values if entity.startswith(BROKERS) for value in self._held(entity, -1)
            ]
            every.append(self._default)
        return min(value for value in every if value is not None)

    def _held(self, entity: str, since_us: int) -> list[int | None]:
        """What an entity has said at any time since; before it has said anything, nothing."""
        values: list[tuple[int, int | None]] = [(-1, None), *self._values.get(entity, ())]
        ends = [begin for begin, _ in values[1:]]
        return [value for (_, value), end in zip(values, [*ends, since_us + 1], strict=True) if end > since_us]
