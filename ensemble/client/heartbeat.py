"""A session's heartbeat: pings while nothing else is sent, and notices when the server has fallen silent (ClientCnxn).

A third of the session's time-out may pass without a word to the server, two thirds without one from it.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.ports import Runtime, Timer


class Heartbeat:
    """Runs from `start` to `stop`.  `ping` sends a ping; `lose` is told why the connection is to be given up."""

    __slots__ = ("_due_ms", "_heard_ms", "_lose", "_ping", "_runtime", "_sent_ms", "_timeout_ms", "_timer")

    def __init__(self, runtime: Runtime, ping: Callable[[], None], lose: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._ping = ping
        self._lose = lose
        self._timer: Timer | None = None
        self._timeout_ms = 0
        self._due_ms = 0
        self._heard_ms = 0
        self._sent_ms = 0

    def start(self, timeout_ms: int) -> None:
        """A session with that time-out stands."""
        self._timeout_ms = timeout_ms
        self._heard_ms = self._sent_ms = self._runtime.now().mono_ms
        self._schedule()

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def heard(self) -> None:
        """The server said something."""
        self._heard_ms = self._runtime.now().mono_ms

    def sent(self) -> None:
        """Something was sent to the server."""
        self._sent_ms = self._runtime.now().mono_ms

    def _schedule(self) -> None:
        self.stop()
        now_ms = self._runtime.now().mono_ms
        ping_ms = self._sent_ms + self._timeout_ms // 3
        silent_ms = self._heard_ms + self._timeout_ms * 2 // 3
        self._due_ms = max(now_ms + 1, min(ping_ms, silent_ms))
        self._timer = self._runtime.call_later(self._due_ms - now_ms, self._tick)

    def _tick(self) -> None:
        now_ms = self._runtime.now().mono_ms
        third_ms = self._timeout_ms // 3
        if now_ms - self._heard_ms >= self._timeout_ms * 2 // 3:
            if now_ms - self._due_ms < third_ms:
                self._lose(f"nothing heard for {now_ms - self._heard_ms} ms")
                return
            # This process itself was stalled, and the answers may wait in the socket: let them in before judging.
            self._heard_ms = now_ms - third_ms
        if now_ms - self._sent_ms >= third_ms:
            self._ping()
        self._schedule()
