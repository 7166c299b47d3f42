"""Gates hold, drop, delay or reorder frames that processes write to connections, depending on the frame's kind.

A gate is between a process and its socket. A held or delayed frame blocks the later frames of its connection, as a lost
segment does in TCP. TCP itself never reorders or drops the frames of a connection, so these two faults imitate a faulty
network stack. Held frames are lost when their connection closes. A gate that has no rule for its link forwards all
bytes immediately, so gates without rules do not change the history of a world.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple, Protocol

from zabka.simulation.engine.scheduler import Scheduler


class Action(Enum):
    """Action that a rule applies to a frame."""

    HOLD = "hold"
    DROP = "drop"
    DELAY = "delay"
    REORDER = "reorder"


class Frame(NamedTuple):
    """One frame: the kind of its message, and its bytes on the connection."""

    kind: str
    data: bytes


class Frames(Protocol):
    """Splits the bytes written by one end of a connection into frames."""

    @property
    def partial(self) -> int:
        """Return the number of bytes after the last whole frame."""
        ...

    def written(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete with these bytes."""
        ...

    def received(self, data: bytes) -> None:
        """Handle bytes that this end has received. For a reply, the frame's kind is the kind of the request to which it
        replies.
        """
        ...


class Rule:
    """A fault on frames of one kind, in one direction between two machines."""

    def __init__(
        self, source: str, target: str, kind: str, action: Action, *, count: int | None = None, delay_us: int = 0
    ) -> None:
        self.link = source, target
        self.kind = kind
        self.action = action
        self.left = count
        """The number of frames that the rule will still affect; None for all."""
        self.delay_us = delay_us
        self.affected = 0
        self.waiting: list[tuple[Gate, _Queued]] = []

    def applies_to(self, kind: str) -> bool:
        """Return whether the rule applies to the next frame of that kind, and count the frame."""
        if kind != self.kind or self.left == 0:
            return False
        self.affected += 1
        if self.left is not None:
            self.left -= 1
        return True

    def release(self) -> None:
        """Affect no more frames, and send the held frames."""
        self.left = 0
        waiting, self.waiting = self.waiting, []
        for gate, queued in waiting:
            queued.is_ready = True
            gate.flush()


class Gates:
    """The rules by which gates hold, drop, delay or reorder the frames of one world."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._rules: dict[tuple[str, str], list[Rule]] = {}

    def add(self, rule: Rule) -> None:
        """Apply a rule from now on.  If several rules match a frame, the first one applies."""
        self._rules.setdefault(rule.link, []).append(rule)

    def rules(self, source: str, target: str) -> Iterator[Rule]:
        """Yield the rules that still affect frames from `source` to `target`."""
        return (rule for rule in self._rules.get((source, target), ()) if rule.left != 0)


class _Queued:
    """A queued frame, or the bytes of an incomplete frame after it."""

    def __init__(self, data: bytes, is_ready: bool) -> None:
        self.data = data
        self.is_ready = is_ready


class Gate:
    """The gate at one end of a connection.  `send` passes bytes to the socket."""

    def __init__(self, gates: Gates, link: tuple[str, str], frames: Frames, send: Callable[[bytes], None]) -> None:
        self._gates = gates
        self._link = link
        self._frames = frames
        self._send = send
        self._sent_of_partial = 0
        """Number of bytes of an incomplete frame that were sent before a rule applied to it."""
        self._queue: deque[_Queued] = deque()
        self._overtaken: list[bytes] = []
        """Reordered frames, to send after the next frame."""

    def received(self, data: bytes) -> None:
        """Handle bytes that the process has read."""
        self._frames.received(data)

    def write(self, data: bytes) -> None:
        """Handle bytes that the process writes."""
        is_open = not (self._queue or self._overtaken or any(self._gates.rules(*self._link)))
        frames = self._frames.written(data)
        if is_open:
            self._sent_of_partial = self._frames.partial
            self._send(data)
            return
        for frame in frames:
            begun, self._sent_of_partial = self._sent_of_partial, 0
            if begun:
                self._pass(frame.data[begun:])
            else:
                self._decide(frame)

    def flush(self) -> None:
        """Send the frames at the head of the queue that no rule holds or delays any longer."""
        while self._queue and self._queue[0].is_ready:
            self._send(self._queue.popleft().data)

    def _decide(self, frame: Frame) -> None:
        rule = next((rule for rule in self._gates.rules(*self._link) if rule.applies_to(frame.kind)), None)
        if rule is None:
            self._pass(frame.data)
        elif rule.action is Action.REORDER:
            self._overtaken.append(frame.data)
        elif rule.action is not Action.DROP:
            queued = _Queued(frame.data, is_ready=False)
            self._queue.append(queued)
            if rule.action is Action.HOLD:
                rule.waiting.append((self, queued))
            else:
                self._gates.scheduler.after(rule.delay_us, lambda: self._is_due(queued))

    def _is_due(self, queued: _Queued) -> None:
        queued.is_ready = True
        self.flush()

    def _pass(self, data: bytes) -> None:
        overtaken, self._overtaken = self._overtaken, []
        for each in (data, *overtaken):
            self._queue.append(_Queued(each, is_ready=True))
        self.flush()
