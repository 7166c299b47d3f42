"""The collector: fetches every node's journal from the agents and merges them into one numbered history.

The collector holds entries back briefly, so that it can order events of several nodes by wall clock. It never changes
the order of one node's own entries.

An event number is never assigned twice. The collector writes a numbered entry to its files before it sends the entry to
clients, and resumes from those files after a restart. Each file also begins with the folded state at that point, which
is the result of applying all earlier events. So the state at any stored event number includes all earlier events, even
those whose files were removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from hashlib import sha256
from inspect import getsource
from itertools import islice
from math import inf
from pathlib import Path

import msgspec
import structlog

from zabka.agent.client import AgentSilent
from zabka.agent.protocol import API_NODE, JournalChunk, Position
from zabka.api.collector.agents import Agent
from zabka.api.collector.begun import first_line
from zabka.api.collector.event_counts import EventCounts, StoredCounts
from zabka.api.collector.numbered import FILE_BYTES_MAX, KEPT_BYTES_MAX, Numbered, NumberedJournal
from zabka.api.http.problems import Problem
from zabka.api.runs.history import Checkpoints, Folded
from zabka.api.runs.rewind import NotedFold, Rewind
from zabka.journal import fold, spans
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import ControllerBelieved, Entry, NodeStarted, PeerStateChanged
from zabka.journal.reader import decode_line, merge, split_lines
from zabka.journal.spans import Spans

RECENT_EVENTS_MAX = 20_000
"""Maximum number of events in memory. Older events are read from the files."""
HOLD_BACK_US = 120_000
HOLD_BACK_BUSY_US = 55_000
"""Maximum hold-back time if there is only one agent and it has recently delivered entries; replaces HOLD_BACK_US.

Such an agent checks for new entries every 25 ms, with or without file notifications from the kernel
(`zabka.compose.journal_growth`). With several agents, entries arrive at different times over a network.
"""
# This time must be less than 3 s, because an agent that has found new entries checks every 25 ms only for the next 3 s.
_BUSY_S = 2.5
# Maximum time to hold back the entries of a node whose clock is ahead of ours.
HOLD_BACK_MAX_S = 0.5
PULL_WAIT_MS = 2_000
RETRY_S = 0.25
WAITING_MAX = 20_000
"""Maximum number of entries that wait for an event number.

While more entries wait, the collector fetches no further ones.
"""
RESTART_REPORTED_S = 600.0
"""Time in seconds for which the health report mentions the restart of a journal."""
_TICK_S = 0.02

# These events contain the same data as a node's status. `reported_us` maps each node to the time of its last such
# event.
_STANDINGS = (PeerStateChanged, ControllerBelieved, NodeStarted)

log = structlog.get_logger()


class TooOld(Exception):
    """Some events after the requested number are no longer stored; `oldest` is the oldest stored number."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"the oldest stored event is {oldest}")
        self.oldest = oldest


class Collector:
    """The merged history of all nodes. The most recent events are in memory; all stored events are in files.

    Clients can read the newest `served_max` events or, if it is None, all stored events. `file_bytes_max` limits the
    size of each file, and `kept_bytes_max` the total size of all files. `recent_max` is the number of events in memory.
    Raises NewerHistory.
    """

    def __init__(
        self,
        directory: Path,
        *,
        kept_bytes_max: int = KEPT_BYTES_MAX,
        file_bytes_max: int = FILE_BYTES_MAX,
        served_max: int | None = None,
        recent_max: int = RECENT_EVENTS_MAX,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        mono_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = EventCounts()
        self.reported_us: dict[str, int] = {}
        self.bad_lines = 0
        self.trouble = ""
        self._served_max = served_max
        self._recent: deque[Numbered] = deque(maxlen=recent_max if served_max is None else min(served_max, recent_max))
        self._wall_us = wall_us
        self._mono_s = mono_s
        self._pending: list[tuple[float, Entry]] = []
        self._restarted_s: dict[str, float] = {}
        """Time at which the collector noticed the restart of a node's journal, keyed by node."""
        self._brought_s: dict[str, float] = {}
        """Time at which each agent last delivered journal entries."""
        self._arrived = asyncio.Event()
        self._came = asyncio.Event()
        """Set while entries wait for an event number."""
        self._node_seqs: dict[str, int] = {}
        self._checkpoints = Checkpoints()
        self._fold = NotedFold(Spans(), self._checkpoints)
        self._files = NumberedJournal(
            directory, file_bytes_max=file_bytes_max, bytes_max=kept_bytes_max, standing=self._standing
        )
        for entry, line in self._files.recover(self._take_up, self._take_over):
            self._keep(entry, line)
        self._node_seqs = dict(self._files.node_seqs)

    # ---- reading ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClusterState:
        """The folded state after the last event. Do not store a reference: the next event modifies it in place."""
        return self._fold.spans.state

    @property
    def last_seq(self) -> int:
        """The highest event number assigned so far."""
        return self._files.last_seq

    @property
    def history(self) -> str:
        """Identifier of this history. It survives restarts of this process.

        If the collector's directory was emptied, a history with another identifier begins.
        """
        return self._files.history

    @property
    def oldest_seq(self) -> int:
        """The lowest event number that clients can read; `last_seq` + 1 if no event is stored."""
        kept = self._files.oldest_seq
        return kept if self._served_max is None else max(kept, self.last_seq + 1 - self._served_max)

    def after(self, seq: int, limit: int) -> list[Numbered]:
        """Return up to `limit` events with numbers above `seq`, in order.

        If `seq` is 0, start with the oldest stored event. Raises TooOld if some events after `seq` are no longer
        stored.
        """
        oldest = self.oldest_seq
        if oldest > self.last_seq:
            return []
        if seq and seq + 1 < oldest:
            raise TooOld(oldest)
        return self._read(max(oldest, seq + 1), limit)

    def _read(self, seq: int, limit: int) -> list[Numbered]:
        """Return up to `limit` stored events, starting with `seq`."""
        first_recent = self._recent[0].seq if self._recent else self.last_seq + 1
        older = self._files.read(seq, min(limit, first_recent - seq)) if seq < first_recent else []
        found = [event for event in older if event.seq < first_recent]
        if len(found) < limit:
            found += self._recent_from(max(seq, first_recent), limit - len(found))
        return found

    def _recent_from(self, seq: int, limit: int) -> list[Numbered]:
        """Return the events in memory from number `seq` on. Search from whichever end is nearer."""
        recent = self._recent
        if not recent:
            return []
        # Unreadable lines of an older file leave gaps in the numbers.
        gaps = recent[-1].seq - recent[0].seq + 1 - len(recent)
        begin = max(0, seq - recent[0].seq - gaps)
        count = len(recent) - begin
        if count < begin:
            found = list(islice(reversed(recent), max(0, count)))
            found.reverse()
        else:
            found = list(islice(recent, begin, begin + limit + gaps))
        return [event for event in found if event.seq >= seq][:limit] if gaps else found[:limit]

    @property
    def rewind(self) -> Rewind:
        """The Rewind of this history, which computes the state at any stored event number."""
        return Rewind(_Collected(self._files, self._read), self._checkpoints)

    async def more(self, seq: int, timeout_s: float) -> bool:
        """Wait until there are events after number `seq`. Return False after `timeout_s`."""
        deadline = self._mono_s() + timeout_s
        while self.last_seq <= seq:
            left = deadline - self._mono_s()
            if left <= 0:
                return False
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), left)
        return True

    # ---- collecting -------------------------------------------------------------------------------------------------

    async def run(self, agents: list[Agent]) -> None:
        """Collect the journals from all agents until cancelled. If reading a journal fails, raise its error."""
        self._brought_s = {agent.name: -inf for agent in agents}
        try:
            async with asyncio.TaskGroup() as group:
                for agent in agents:
                    group.create_task(self._pull(agent))
                while True:
                    await self._came.wait()
                    await asyncio.sleep(_TICK_S)
                    self.number_due()
                    if self.trouble:
                        await asyncio.sleep(RETRY_S)
        finally:
            self.number_due(everything=True)

    async def _pull(self, agent: Agent) -> None:
        positions = {node: self.position(node) for node in (*agent.nodes, agent.name, API_NODE)}
        while True:
            if len(self._pending) > WAITING_MAX:
                await asyncio.sleep(RETRY_S)
                continue
            try:
                answer = await agent.read_journal(positions, PULL_WAIT_MS)
            except (AgentSilent, Problem, msgspec.MsgspecError):
                await asyncio.sleep(RETRY_S)
                continue
            if answer.chunks:
                self._brought_s[agent.name] = self._mono_s()
            for chunk in answer.chunks:
                self.accept_chunk(chunk)
                positions[chunk.node] = msgspec.structs.replace(
                    chunk.next, first=self._files.begun_of(chunk.node).first
                )

    def position(self, node: str) -> Position:
        """Return the position at which to continue reading a node's journal, in the node's own numbering."""
        begun = self._files.begun_of(node)
        return Position(after=max(0, self._node_seqs.get(node, 0) - begun.base), first=begun.first)

    @property
    def restarted_journals(self) -> str:
        """Return a message that lists the journals that restarted in the last RESTART_REPORTED_S, or an empty
        string.
        """
        since_s = self._mono_s() - RESTART_REPORTED_S
        nodes = sorted(node for node, at_s in self._restarted_s.items() if at_s >= since_s)
        if not nodes:
            return ""
        return f"the journal of {', '.join(nodes)} started again: events that it had not delivered are lost"

    def accept_chunk(self, chunk: JournalChunk) -> None:
        """Accept new journal lines of a node.

        Skip lines that were accepted before. Also skip and count invalid lines. If the node's journal has restarted,
        the numbers of its new entries continue after those of the old journal.
        """
        now_s = self._mono_s()
        if chunk.anew:
            self._restart_journal(chunk.node)
        for line in split_lines(chunk.lines):
            try:
                entry = decode_line(line)
            except ValueError as reason:
                self.bad_lines += 1
                log.warning("skipped an unreadable journal line", node=chunk.node, reason=str(reason))
                continue
            begun = self._files.begun_of(entry.node)
            if entry.node_seq == 1 and begun.first not in (None, first_line(entry)):
                # The node's journal has restarted. The chunk does not report this if the request contained only a
                # sequence number, or if the agent has an older version.
                self._restart_journal(entry.node)
                begun = self._files.begun_of(entry.node)
            entry = begun.numbered_on(entry)
            self._files.begun[entry.node] = begun.seen(entry)
            if entry.node_seq > self._node_seqs.get(entry.node, 0):
                self._node_seqs[entry.node] = entry.node_seq
                self._pending.append((now_s, entry))
                self._came.set()

    def _restart_journal(self, node: str) -> None:
        known = self._node_seqs.get(node, 0)
        log.warning("a node's journal started again: its lines continue the numbering", node=node, after=known)
        self._files.restart_journal(node, known)
        if known:
            self._restarted_s[node] = self._mono_s()

    def number_due(self, *, everything: bool = False) -> int:
        """Assign event numbers to the entries that were held back long enough. Return their count.

        If the entries cannot be stored (for example on a full disk), they wait for the next attempt. Until then,
        `trouble` reports the failure.
        """
        if not self._pending:
            return 0
        newest_us = self._wall_us() - self._hold_back_us()
        oldest_s = self._mono_s() - HOLD_BACK_MAX_S
        due, waiting, held = [], [], set()
        for arrived_s, entry in self._pending:
            ready = everything or entry.wall_us <= newest_us or arrived_s <= oldest_s
            # While an entry of a node is held back, also hold back the node's later entries.
            if ready and entry.node not in held:
                due.append(entry)
            else:
                held.add(entry.node)
                waiting.append((arrived_s, entry))
        numbered = self._number(merge(due)) if due else []
        if numbered is None:
            return 0
        # The entries have their numbers now. Remove them here, so that a later error cannot number them twice.
        self._pending = waiting
        if not waiting:
            self._came.clear()
        self._publish(numbered)
        return len(due)

    def _hold_back_us(self) -> int:
        since_s = self._mono_s() - _BUSY_S
        brought_s = list(self._brought_s.values())
        return HOLD_BACK_BUSY_US if len(brought_s) == 1 and brought_s[0] > since_s else HOLD_BACK_US

    def _number(self, entries: list[Entry]) -> list[tuple[Entry, bytes]] | None:
        """Assign event numbers to the entries and store them. Return them, or None if they cannot be stored."""
        try:
            numbered = self._files.append(entries)
        except OSError as reason:
            if not self.trouble:
                log.error("the history does not advance: it cannot be stored", reason=str(reason))
            self.trouble = f"the history does not advance, because it cannot be stored: {reason.strerror or reason}"
            return None
        if self.trouble:
            self.trouble = ""
            log.warning("the history advances again")
        return numbered

    def _publish(self, numbered: list[tuple[Entry, bytes]]) -> None:
        for entry, line in numbered:
            self._keep(entry, line)
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()

    def _keep(self, entry: Entry, line: bytes) -> None:
        self._recent.append(Numbered(entry.seq, line))
        self._fold.apply(entry)
        self._fold.take_closed()
        self.counts.count_event(entry)
        if isinstance(entry.event, _STANDINGS):
            self.reported_us[entry.node] = entry.wall_us

    def _standing(self) -> bytes:
        folded = Folded.of(self._fold.spans)
        return msgspec.json.encode(_Standing(FOLDED, folded, self.counts.as_counts(), self.reported_us))

    def _take_up(self, standing: bytes) -> bool:
        """Resume from the folded state at the head of a file. Return False if this version cannot read it."""
        found = _standing_of(standing)
        return found is not None and self._begin_from(found)

    def _take_over(self, standing: bytes) -> bool:
        """Resume from the oldest stored folded state, even if another version of zabka wrote it.

        The events before this state are no longer stored, so everything that they contained would be lost if the
        collector started from an empty state.
        """
        found = _read_standing(standing)
        return found is not None and self._begin_from(found)

    def _begin_from(self, found: _Standing) -> bool:
        self._fold = NotedFold(found.folded.go_on(), self._checkpoints)
        self.reported_us = found.reported_us
        self.counts = EventCounts.of(found.counts)
        return True

    def close(self) -> None:
        """Close the files."""
        self._files.close()


class _Standing(msgspec.Struct):
    """The collector's folded state, as stored at the head of a file.

    `fold` identifies the version of the fold's code and of the state's format. The same values can have a different
    meaning in a state of another version.
    """

    fold: str
    folded: Folded
    counts: StoredCounts
    reported_us: dict[str, int] = msgspec.field(name="told_us")
    """Wall time of each node's last event that contains its status data. The field is stored under its earlier name
    `told_us`.
    """


class _AtUs(msgspec.Struct):
    at_us: int


class _OnlyState(msgspec.Struct):
    state: _AtUs


class _Moment(msgspec.Struct):
    """The time of a stored folded state. Decoding skips all other fields."""

    folded: _OnlyState


FOLDED = sha256(
    msgspec.json.encode(msgspec.json.schema(Folded)) + getsource(fold).encode() + getsource(spans).encode()
).hexdigest()[:16]
_decode_standing = msgspec.json.Decoder(_Standing).decode
_decode_moment = msgspec.json.Decoder(_Moment).decode


def _read_standing(stored: bytes) -> _Standing | None:
    """Decode a stored folded state. A state of another version is decoded if it has this version's format."""
    try:
        return _decode_standing(stored)
    except msgspec.MsgspecError:
        return None


def _standing_of(stored: bytes) -> _Standing | None:
    found = _read_standing(stored)
    return found if found is not None and found.fold == FOLDED else None


def _at_us(stored: bytes) -> int | None:
    try:
        return _decode_moment(stored).folded.state.at_us
    except msgspec.MsgspecError:
        return None


class _Collected:
    """Provides the collected history to `Rewind`, as an implementation of `History`."""

    def __init__(self, files: NumberedJournal, read: Callable[[int, int], list[Numbered]]) -> None:
        self._files = files
        self.read = read

    @property
    def first_seq(self) -> int:
        return self._files.oldest_seq

    @property
    def last_seq(self) -> int:
        return self._files.last_seq

    def head(self, seq: int) -> Folded:
        return self._first(self._files.standings(seq))

    def head_at(self, at_us: int) -> Folded:
        stored = self._files.standings(self.last_seq)
        return self._first(each for each in stored if (moment := _at_us(each)) is not None and moment <= at_us)

    @staticmethod
    def _first(stored: Iterable[bytes]) -> Folded:
        """Return the first state that this version wrote, from states ordered latest first.

        If this version wrote none of them, return the last of the states, which is the oldest stored one
        (`Collector._take_over`).
        """
        oldest = b""
        for oldest in stored:
            if (found := _standing_of(oldest)) is not None:
                return found.folded
        taken_over = _read_standing(oldest)
        return Folded(ClusterState(), []) if taken_over is None else taken_over.folded
