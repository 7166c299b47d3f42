"""Counts evictions of brokers, by session expiry or from an ISR because of lag, and whether the broker was dead."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.events import Entry
from zabka.pipeline.campaign.lives import Lives
from zabka.pipeline.campaign.partition_times import Window

TAKES = frozenset([e.BrokerRegistered, e.EphemeralCreated, e.SessionExpired, e.IsrChanged])
"""Event types that this module evaluates."""


class Evictions:
    """Counts evictions of brokers within the window.

    An eviction is false if the broker's process existed, even if it was paused, because the process would have
    continued by itself.
    """

    def __init__(self, window: Window, lives: Lives) -> None:
        self._window = window
        self._lives = lives
        self._brokers: dict[int, int] = {}
        self._expired: dict[int, None] = {}
        self._isrs: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.sessions = 0
        self.false_sessions = 0
        self.from_isr = 0
        self.false_from_isr = 0

    def see(self, entry: Entry) -> None:
        """Process the next entry. `Lives` must have processed it before."""
        event = entry.event
        if type(event) not in TAKES:
            return
        counts = self._window.begin_us <= entry.mono_us < self._window.end_us
        if isinstance(event, e.BrokerRegistered):
            self._brokers[event.session_id] = event.broker_id
        elif isinstance(event, e.EphemeralCreated) and event.path.startswith("/brokers/ids/"):
            self._brokers[event.session_id] = int(event.path.rpartition("/")[2])
        elif isinstance(event, e.SessionExpired):
            broker = self._brokers.get(event.session_id)
            if broker is not None and event.session_id not in self._expired:
                self._expired[event.session_id] = None
                self.sessions += counts
                self.false_sessions += counts and self._lives.exists(f"broker-{broker}")
        elif isinstance(event, e.IsrChanged) and event.cause == "lag" and not event.topic.startswith("__"):
            left = [broker for broker in event.left if broker not in event.isr]
            self.from_isr += counts * len(left)
            self.false_from_isr += counts * sum(self._lives.exists(f"broker-{broker}") for broker in left)
