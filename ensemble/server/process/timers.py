"""A peer's timers on the event loop: one a name, and a new one takes the old one's place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from zabka.ensemble.zab.effects import CancelTimer, SetTimer


class PeerTimers:
    """The timers that a peer has asked for; `ran_out` hears the name of each that is due."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ran_out: Callable[[str], None]) -> None:
        self._loop = loop
        self._ran_out = ran_out
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def set(self, effect: SetTimer) -> None:
        """Start a timer, or start it anew."""
        old = self._timers.pop(effect.name, None)
        if old is not None:
            old.cancel()
        self._timers[effect.name] = self._loop.call_later(effect.delay_ms / 1000, self._due, effect.name)

    def cancel(self, effect: CancelTimer) -> None:
        """Forget a timer; nothing where there is none of that name."""
        timer = self._timers.pop(effect.name, None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        """Forget every timer: the peer has ended."""
        for timer in self._timers.values():
            timer.cancel()

    def _due(self, name: str) -> None:
        self._timers.pop(name, None)
        self._ran_out(name)
