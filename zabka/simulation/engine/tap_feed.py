"""Reports all messages between the processes of one world to a message tap.

Processes record the messages that they send and receive in `MessageNotes`, as on a real host.  In a world they share
one clock, and a message is recorded as sent before it can be received, so the order of messages is always known.
Recording draws no random numbers and affects no process, so a tap does not change the history of a world.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from zabka.journal.message_log import MessageLine, MessageNotes, Transport
from zabka.journal.messages import Content, Message
from zabka.journal.sightings import UNSENT
from zabka.simulation.engine.tap import MessageTap

NEVER_READ = "its receiver never read it: the connection broke, a process or its machine had ended, or the world did"


class Clock(Protocol):
    """Clock of an observed process: its event loop."""

    killed: bool

    def world_us(self) -> int:
        """Return the microseconds since the world began, including the time that the process has spent in this turn."""
        ...


class TapFeed:
    """Reports every message of a world to a tap."""

    def __init__(self, tap: MessageTap) -> None:
        self._tap = tap
        self._names: dict[str, str] = {}
        """Machine names, keyed by address."""
        self._under_way: dict[tuple[str, str, str], deque[Message]] = {}
        """Messages in flight, keyed by connection, sender and the message's key on this connection."""
        self._asked: dict[tuple[str, str], int] = {}
        """Message ids of requests, keyed by connection and by the request's number on that connection."""

    def machine(self, name: str, address: str) -> None:
        """Register the name of the machine with that address."""
        self._names[address] = name

    def notes(self, node: str, clock: Clock) -> ProcessNotes:
        """Return the message recorder for one process on the machine `node`."""
        return ProcessNotes(self, node, clock)

    def name_of(self, transport: Transport) -> str:
        """Return the name of the machine at the other end of a connection."""
        end = transport.get_extra_info("peername")
        assert isinstance(end, tuple)
        return self._names[end[0]]

    def sent(self, us: int, ends: tuple[str, str], line: str, key: str, content: Content, size: int | None) -> None:
        """Report a message that the first machine of `ends` sends to the second."""
        source, target = ends
        word, _, number = key.partition("@")
        answers = self._asked.pop((line, number), None) if word == "answer" else None
        message = self._tap.send(us, source, target, content, answers)
        message.bytes = size
        if word == "request":
            self._asked[line, number] = message.id
        self._under_way.setdefault((line, source, key), deque()).append(message)

    def received(self, us: int, ends: tuple[str, str], line: str, key: str, content: Content, size: int | None) -> None:
        """Report that the second machine of `ends` has read a message of the first."""
        waiting = self._under_way.get((line, ends[0], key))
        if waiting is None:
            message = self._tap.send(us, *ends, content)
            message.arrived_us, message.bytes, message.lost = us, size, UNSENT
            return
        message = waiting.popleft()
        message.arrived_us = us
        if message.bytes is None:
            message.bytes = size
        if not waiting:
            del self._under_way[line, ends[0], key]

    def stop_hearing(self) -> None:
        """Mark messages in flight as never read, because the world has ended."""
        for waiting in self._under_way.values():
            for message in waiting:
                message.lost = NEVER_READ
        self._under_way.clear()


class ProcessNotes(MessageNotes):
    """Message recorder of one process, used until the process is killed."""

    def __init__(self, heard: TapFeed, node: str, clock: Clock) -> None:
        super().__init__(hears_everything=True)
        self._heard = heard
        self._node = node
        self._clock = clock

    def line(self, transport: Transport, other: str | None = None) -> MessageLine:
        """Return the message recorder of one connection.

        `other` is ignored, because the world knows which machine is at the other end.
        """
        return super().line(transport, self._heard.name_of(transport))

    def now_us(self) -> int:
        """Return the world's time, without the clock skew of the machine."""
        return self._clock.world_us()

    def note(self, us: int, sent: bool, line: MessageLine, key: str, content: Content, size: int | None) -> None:
        """Report a message that this process sent or received. Ignore it if the process was killed."""
        assert line.other is not None, "every line of a world is told whose it is"
        if self._clock.killed:
            return
        if sent:
            self._heard.sent(us, (self._node, line.other), line.name, key, content, size)
        else:
            self._heard.received(us, (line.other, self._node), line.name, key, content, size)
