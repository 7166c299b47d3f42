"""Protocol between the API and a host agent: JSON over HTTP, with a bearer token."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from zabka.ensemble.request_fault import HeldRequestFault
from zabka.ensemble.runtime.link_fault import AnyFault, HeldFault

JOURNAL_CHUNK_BYTES_MAX = 1024 * 1024
API_NODE = "api"
"""Node name of the API's process, which has its own journal."""
NEWER_STATE = os.EX_CONFIG
"""Exit code of an API process whose state was written by a newer zabka; the process is not restarted then."""


REQUESTER_HEADER = "zabka-requester"
"""HTTP header in which a client names itself as the requester of an action on a node or a link."""
REQUESTER_CHARACTERS_MAX = 100


def requester_named(text: str) -> str:
    """Return a requester's name as the journal stores it: printable, at most REQUESTER_CHARACTERS_MAX characters."""
    return "".join(each for each in text if each.isprintable())[:REQUESTER_CHARACTERS_MAX]


class NodeAction(StrEnum):
    """An action on the process of a node."""

    KILL = "kill"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    START = "start"
    RESTART = "restart"


class ProcessInfo(msgspec.Struct, frozen=True):
    """One process in an agent's table.

    `process` is running, paused or down; `exit_code` is from the last incarnation.
    """

    name: str
    process: str
    pid: int | None
    exit_code: int | None
    starts: int


class NodeStatus(msgspec.Struct, frozen=True):
    """A node's last status from its control socket, and its age."""

    name: str
    age_ms: int
    status: dict[str, Any]


class Snapshot(msgspec.Struct, frozen=True):
    """An agent's complete state. `taken_us` is the host's wall clock, as in its journals.

    `faults_known`: whether the agent has received the active link faults since it started; always True from an agent
    that does not send it. Agents of earlier versions send it under its earlier name.
    """

    host: str
    processes: list[ProcessInfo]
    statuses: list[NodeStatus]
    taken_us: int = 0
    faults_known: bool = msgspec.field(default=True, name="faults_told")


class FaultState(msgspec.Struct, frozen=True):
    """All active faults; they replace the earlier ones. `whole` is false if some agents did not report their faults."""

    faults: list[HeldFault]
    whole: bool = True
    requests: list[HeldRequestFault] = []

    @classmethod
    def of(cls, faults: Sequence[AnyFault], whole: bool = True) -> FaultState:
        """Return a state with these faults, sorted into its two kinds."""
        links = [fault for fault in faults if isinstance(fault, HeldFault)]
        return cls(links, whole, [fault for fault in faults if isinstance(fault, HeldRequestFault)])

    @property
    def all(self) -> list[AnyFault]:
        """The faults of both kinds."""
        return [*self.faults, *self.requests]


class FirstLine(msgspec.Struct, frozen=True):
    """The two clocks in line 1 of a journal. They identify it: no other journal of the node has the same pair."""

    wall_us: int
    mono_us: int


class Position(msgspec.Struct, frozen=True):
    """A node's read position in its journal: the file and the byte offset.

    Without a file, `after` is the highest node_seq already read, and the agent finds the file. `first` identifies the
    journal that was read; None if its line 1 was never read.
    """

    file: str = ""
    offset: int = 0
    after: int = 0
    first: FirstLine | None = None


class JournalRequest(msgspec.Struct, frozen=True):
    """A request for new journal lines. The agent responds as soon as there are new lines, or after `wait_ms`."""

    positions: dict[str, Position]
    wait_ms: int = 0


class JournalChunk(msgspec.Struct, frozen=True):
    """Complete lines of one node's journal, and the position of the next read.

    Lines are bytes that end with a newline (base64 in JSON). Strings would have other line ends, such as U+2028, which
    a path may contain. `anew` is true if the journal read so far no longer exists: these are the oldest lines of
    another journal.
    """

    node: str
    lines: bytes
    next: Position
    anew: bool = False


class JournalAnswer(msgspec.Struct, frozen=True):
    """New journal lines, by node."""

    chunks: list[JournalChunk]


class Refusal(msgspec.Struct, frozen=True):
    """The reason for a rejected request: an RFC 9457 problem document."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
