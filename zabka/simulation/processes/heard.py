"""What the processes of one world say to each other, told to a tap.

Processes note what they send and what they hear by the taps that they have on a host: in `MessageNotes`.  Here all of
them have one clock, the world's, and a message is noted as sent before anybody can hear it, so nothing has to be
guessed.  Notes draw nothing and tell no process anything: a world that is listened to has the history that it has
without.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from zabka.journal.message_log import MessageLine, MessageNotes, Transport
from zabka.journal.messages import Content, Message
from zabka.journal.sightings import UNSENT
from zabka.simulation.network.tap import MessageTap

NEVER_READ = "its receiver never read it: the connection broke, a process or its machine had ended, or the world did"


class Clock(Protocol):
    """A process's event loop, to whoever listens."""

    killed: bool

    def world_us(self) -> int:
        """Microseconds since the world began, with what the process has been busy in this turn."""
        ...


class Heard:
    """Tells a tap of every message of a world."""

    def __init__(self, tap: MessageTap) -> None:
        self._tap = tap
        self._names: dict[str, str] = {}
        """Machines by their addresses."""
        self._under_way: dict[tuple[str, str, str], deque[Message]] = {}
        """By connection, sender and the message's key there."""
        self._asked: dict[tuple[str, str], int] = {}
        """The ids of requests, by connection and number."""

    def machine(self, name: str, address: str) -> None:
        """There is a machine of that name at that address."""
        self._names[address] = name

    def notes(self, node: str, clock: Clock) -> ProcessNotes:
        """For one run of a program on that machine."""
        return ProcessNotes(self, node, clock)

    def name_of(self, transport: Transport) -> str:
        """The machine at the other end of a connection."""
        end = transport.get_extra_info("peername")
        assert isinstance(end, tuple)
        return self._names[end[0]]

    def sent(self, us: int, ends: tuple[str, str], line: str, key: str, content: Content, size: int | None) -> None:
        """A message leaves the one machine for the other."""
        source, target = ends
        word, _, number = key.partition("@")
        answers = self._asked.pop((line, number), None) if word == "answer" else None
        message = self._tap.send(us, source, target, content, answers)
        message.bytes = size
        if word == "request":
            self._asked[line, number] = message.id
        self._under_way.setdefault((line, source, key), deque()).append(message)

    def received(self, us: int, ends: tuple[str, str], line: str, key: str, content: Content, size: int | None) -> None:
        """A message from the one machine has been read at the other."""
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
        """The world is over."""
        for waiting in self._under_way.values():
            for message in waiting:
                message.lost = NEVER_READ
        self._under_way.clear()


class ProcessNotes(MessageNotes):
    """The messages of one process, every one of them; of one that was killed nothing more is to be heard."""

    def __init__(self, heard: Heard, node: str, clock: Clock) -> None:
        super().__init__(hears_everything=True)
        self._heard = heard
        self._node = node
        self._clock = clock

    def line(self, transport: Transport, other: str | None = None) -> MessageLine:
        """What goes over one connection; in a world it is known who is at the other end."""
        return super().line(transport, self._heard.name_of(transport))

    def now_us(self) -> int:
        """The world's clock, which is right."""
        return self._clock.world_us()

    def note(self, us: int, sent: bool, line: MessageLine, key: str, content: Content, size: int | None) -> None:
        """Tell it on."""
        assert line.other is not None, "every line of a world is told whose it is"
        if self._clock.killed:
            return
        if sent:
            self._heard.sent(us, (self._node, line.other), line.name, key, content, size)
        else:
            self._heard.received(us, (line.other, self._node), line.name, key, content, size)
