"""What the API and a host agent say to each other: JSON over HTTP, with a bearer token."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Any

import msgspec

from zabka.ensemble.runtime.link_fault import HeldFault

JOURNAL_CHUNK_BYTES_MAX = 1024 * 1024
API_NODE = "api"
"""The API's process, as a node that has a journal of its own."""
NEWER_STATE = os.EX_CONFIG
"""Exit code of an API process whose own state was written by a newer zabka: it is not started again."""


class NodeAction(StrEnum):
    """An action on the process of a node."""

    KILL = "kill"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    START = "start"
    RESTART = "restart"


class ProcessInfo(msgspec.Struct, frozen=True):
    """One process of an agent's table.  `process` is running, paused or down; `exit_code` of the last incarnation."""

    name: str
    process: str
    pid: int | None
    exit_code: int | None
    starts: int


class NodeStatus(msgspec.Struct, frozen=True):
    """A node's last word through its control socket, and how old that is."""

    name: str
    age_ms: int
    status: dict[str, Any]


class Snapshot(msgspec.Struct, frozen=True):
    """Everything an agent knows, in one answer.  `taken_us` is the host's wall clock, as in its journals.

    `faults_told`: it was told which link faults hold since it began.  An older agent does not say.
    """

    host: str
    processes: list[ProcessInfo]
    statuses: list[NodeStatus]
    taken_us: int = 0
    faults_told: bool = True


class FaultState(msgspec.Struct, frozen=True):
    """Every fault that holds; replaces what held before.  `whole` is false where not every agent was heard of them."""

    faults: list[HeldFault]
    whole: bool = True


class FirstLine(msgspec.Struct, frozen=True):
    """The two clocks of a journal's line 1: no other journal of that node begins with the same."""

    wall_us: int
    mono_us: int


class Position(msgspec.Struct, frozen=True):
    """How far a node's journal was read: the file and the byte in it.  Without a file, `after` is the highest
    node_seq read, and the agent picks the file.  `first` is how the journal began that was read; None where its line 1
    was never seen.
    """

    file: str = ""
    offset: int = 0
    after: int = 0
    first: FirstLine | None = None


class JournalRequest(msgspec.Struct, frozen=True):
    """Ask for what is new.  The answer comes as soon as there is something, or after `wait_ms`."""

    positions: dict[str, Position]
    wait_ms: int = 0


class JournalChunk(msgspec.Struct, frozen=True):
    """Whole lines of one node's journal, and where to read on.

    Lines are bytes that end with a newline (base64 in JSON): text has line ends of its own, U+2028 for one, which may
    stand in a path.  `anew`: the journal that was read so far is gone, and these are the oldest lines of another.
    """

    node: str
    lines: bytes
    next: Position
    anew: bool = False


class JournalAnswer(msgspec.Struct, frozen=True):
    """What is new, node by node."""

    chunks: list[JournalChunk]


class Refusal(msgspec.Struct, frozen=True):
    """Why an agent did not do it: an RFC 9457 problem document."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
