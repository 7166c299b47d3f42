"""A client on a read-only server looks around for one that takes writes (ClientCnxn.pingRwServer)."""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.client.rotation import Rotation
from zabka.ensemble.client.service import WordAsker
from zabka.ensemble.ports import Runtime, Timer

PAUSE_MIN_MS = 100
PAUSE_MAX_MS = 5_000
"""Pauses between two questions, doubled each time.  ZooKeeper climbs to 60 s."""
WORD, READ_WRITE = "isro", "rw"


class ReadWriteSearch:
    """Asks one server after the other, from its making until it has `found` one or is stopped."""

    def __init__(self, asker: WordAsker, rotation: Rotation, runtime: Runtime, found: Callable[[str], None]) -> None:
        self._asker = asker
        self._rotation = rotation
        self._runtime = runtime
        self._found = found
        self._pause_ms = PAUSE_MIN_MS
        self._over = False
        self._timer: Timer = runtime.call_later(self._pause_ms, self._ask)

    def stop(self) -> None:
        """Stop asking; an answer that is still to come counts for nothing."""
        self._over = True
        self._timer.cancel()

    def _ask(self) -> None:
        server = self._rotation.next()
        self._asker.ask_word(server, WORD, lambda answer: self._heard(server, answer))

    def _heard(self, server: str, answer: str) -> None:
        if self._over:
            return
        if answer == READ_WRITE:
            self._over = True
            self._found(server)
            return
        self._pause_ms = min(self._pause_ms * 2, PAUSE_MAX_MS)
        self._timer = self._runtime.call_later(self._pause_ms, self._ask)
