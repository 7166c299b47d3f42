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
"""Node name of the API's process. Like other nodes, it has its own journal."""
NEWER_STATE = os.EX_CONFIG
"""Exit code of an API process that finds state written by a newer zabka. The agent does not restart it then."""


REQUESTER_HEADER = "zabka-requester"
"""HTTP header with the name of the client that requests an action on a node or a link."""
REQUESTER_CHARACTERS_MAX = 100


def requester_named(text: str) -> str:
    """Return a requester's name as the journal stores it: printable characters only, at most
    REQUESTER_CHARACTERS_MAX.
    """
    return "".join(each for each in text if each.isprintable())[:REQUESTER_CHARACTERS_MAX]


class NodeAction(StrEnum):
    """An action on a node's process."""

    KILL = "kill"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    START = "start"
    RESTART = "restart"


class ProcessInfo(msgspec.Struct, frozen=True):
    """One row of an agent's process table.

    `process` is running, paused or down; `exit_code` is the exit code of the previous process of this node.
    """

    name: str
    process: str
    pid: int | None
    exit_code: int | None
    starts: int


class NodeStatus(msgspec.Struct, frozen=True):
    """The last status that a node reported on its control socket, and the age of that status."""

    name: str
    age_ms: int
    status: dict[str, Any]


class Snapshot(msgspec.Struct, frozen=True):
    """An agent's complete state. `taken_us` is the time on the host's wall clock, which its journals use as well.

    `faults_known` is whether the agent has received the active link faults since it started. In JSON the field is
    called `faults_told`, as in earlier versions; it is True if an agent does not send it.
    """

    host: str
    processes: list[ProcessInfo]
    statuses: list[NodeStatus]
    taken_us: int = 0
    faults_known: bool = msgspec.field(default=True, name="faults_told")


class FaultState(msgspec.Struct, frozen=True):
    """All active faults. A new list replaces the previous one.

    `whole` is false if some agents did not report their faults.
    """

    faults: list[HeldFault]
    whole: bool = True
    requests: list[HeldRequestFault] = []

    @classmethod
    def of(cls, faults: Sequence[AnyFault], whole: bool = True) -> FaultState:
        """Return a state with these faults, separated into link faults and request faults."""
        links = [fault for fault in faults if isinstance(fault, HeldFault)]
        return cls(links, whole, [fault for fault in faults if isinstance(fault, HeldRequestFault)])

    @property
    def all(self) -> list[AnyFault]:
        """All active faults, both of links and of requests."""
        return [*self.faults, *self.requests]


class FirstLine(msgspec.Struct, frozen=True):
    """The two clock values in line 1 of a journal.

    They identify the journal: no other journal of the same node has the same pair.
    """

    wall_us: int
    mono_us: int


class Position(msgspec.Struct, frozen=True):
    """The position up to which a node's journal has been read: the file and the byte offset.

    If `file` is empty, the agent finds the file itself: `after` is then the highest node_seq already read. `first`
    identifies the journal that was read; it is None if line 1 of that journal was never read.
    """

    file: str = ""
    offset: int = 0
    after: int = 0
    first: FirstLine | None = None


class JournalRequest(msgspec.Struct, frozen=True):
    """A request for new journal lines of several nodes.

    The agent responds as soon as there are new lines, or after `wait_ms`.
    """

    positions: dict[str, Position]
    wait_ms: int = 0


class JournalChunk(msgspec.Struct, frozen=True):
    """Complete lines of one node's journal, and the position at which the next read starts.

    `lines` is bytes (base64 in JSON), and each line ends with a newline. A string would also be split at other line
    separators such as U+2028, which a path may contain. `anew` is true if the journal read so far no longer exists:
    `lines` are then the oldest lines of another journal.
    """

    node: str
    lines: bytes
    next: Position
    anew: bool = False


class JournalAnswer(msgspec.Struct, frozen=True):
    """New journal lines, one chunk per node."""

    chunks: list[JournalChunk]


class Refusal(msgspec.Struct, frozen=True):
    """The reason why a request was rejected, as an RFC 9457 problem document."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
