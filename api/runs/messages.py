"""The messages of a run, read from a stored run's file or the message logs of the live cluster's nodes.

New messages of the live cluster are fetched from the host agents on request, so they cost nothing while no client
requests messages. Sender and receiver both log a message, and their two log entries are joined
(`zabka.journal.sightings`).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from zabka.agent.client import AgentSilent
from zabka.agent.protocol import Position
from zabka.api.collector.agents import Agent, Agents
from zabka.api.http.problems import Problem
from zabka.api.runs.catalogue import LIVE, Runs
from zabka.api.runs.kept import MESSAGES
from zabka.api.runs.world_clock import on_wall_clock
from zabka.journal.messages import Message, read_message
from zabka.journal.reader import split_lines
from zabka.journal.sightings import Matcher, read_sighting

CHUNKS_MAX = 64
"""Maximum number of chunks to fetch from an agent per request. The next request fetches the rest."""
OPEN_MAX = 4
"""Maximum number of stored runs whose messages are in memory."""
LONGEST_US = 60 * 1_000_000
"""A message in transit for longer than this is returned only for windows that contain its sending time."""

log = structlog.get_logger()


class Window(NamedTuple):
    """A selection of messages: sent or received between two times, of these classes, and at most `limit`.

    An empty set of classes means all classes.
    """

    from_us: int
    to_us: int
    classes: frozenset[str]
    limit: int


class Selected(NamedTuple):
    """The selected messages, and the number of other messages in the window, keyed by their class."""

    messages: list[Message]
    hidden: dict[str, int]
    truncated: bool


class Messages:
    """All messages of one run, ordered by sending time."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._sent = [message.sent_us for message in messages]

    def select(self, window: Window) -> Selected:
        """Return the messages of a window, earliest first.

        If the window has more messages than the limit, the latest ones are omitted.
        """
        shown: list[Message] = []
        hidden: Counter[str] = Counter()
        truncated = False
        begin = bisect_left(self._sent, window.from_us - LONGEST_US)
        for message in self._messages[begin : bisect_left(self._sent, window.to_us + 1)]:
            ended_us = message.sent_us if message.arrived_us is None else message.arrived_us
            if ended_us < window.from_us:
                continue
            if window.classes and message.group not in window.classes:
                hidden[message.group] += 1
            elif len(shown) < window.limit:
                shown.append(message)
            else:
                hidden[message.group] += 1
                truncated = True
        return Selected(shown, dict(hidden), truncated)


class KeptMessages:
    """The messages of stored runs, read on first use."""

    def __init__(self) -> None:
        self._open: OrderedDict[Path, Messages] = OrderedDict()

    async def of(self, path: Path) -> Messages:
        """Return the messages in the file at `path`, or none if the file does not exist."""
        if path not in self._open:
            self._open[path] = await asyncio.to_thread(_read, path)
            while len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
        self._open.move_to_end(path)
        return self._open[path]


def _read(path: Path) -> Messages:
    """Read a stored run's messages, and convert their times from the simulated world's clock."""
    try:
        found = [read_message(line) for line in split_lines(path.read_bytes())]
    except FileNotFoundError:
        return Messages([])
    except (OSError, msgspec.MsgspecError) as reason:
        raise Problem(500, f"the messages of this run cannot be read: {reason}") from None
    return Messages(sorted(map(on_wall_clock, found), key=lambda message: (message.sent_us, message.id)))


class LiveMessages:
    """The messages of the live cluster that its nodes still store."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        hosts = {node: agent.name for agent in agents.all for node in agent.nodes}
        self._matcher = Matcher(hosts)
        self._positions = {node: Position() for node in hosts}
        self._asking = asyncio.Lock()
        self._matched = Messages([])

    async def now(self) -> Messages:
        """Return all known messages, including new ones from the nodes."""
        async with self._asking:
            # Do not wait for agents that are known to be silent, because all other requests for messages wait until
            # this request has ended.
            responding = [agent for agent in self._agents.all if agent.silence is None]
            news = await asyncio.gather(*map(self._pull, responding))
            if any(news):
                # Joining all stored messages takes a second, so it runs in a thread.
                self._matched = await asyncio.to_thread(lambda: Messages(self._matcher.messages()))
        return self._matched

    async def _pull(self, agent: Agent) -> bool:
        """Fetch an agent's new messages. Return whether there were any. A silent agent is skipped."""
        anything = False
        for _ in range(CHUNKS_MAX):
            try:
                answer = await agent.read_messages({node: self._positions[node] for node in agent.nodes})
            except (AgentSilent, Problem, msgspec.MsgspecError):
                return anything
            if not answer.chunks:
                return anything
            for chunk in answer.chunks:
                self._positions[chunk.node] = chunk.next
                self._take(chunk.lines)
                anything = True
        return anything

    def _take(self, lines: bytes) -> None:
        for line in split_lines(lines):
            try:
                self._matcher.add([read_sighting(line)])
            except (msgspec.MsgspecError, UnicodeDecodeError):
                log.warning("an invalid line of messages", line=line[:200])


class RunMessages:
    """The messages of all runs."""

    def __init__(self, agents: Agents, runs: Runs) -> None:
        self._runs = runs
        self._live = LiveMessages(agents)
        self._kept = KeptMessages()

    async def select(self, run_id: str, window: Window) -> Selected:
        """Return the messages of a run within a window. Raises Problem 404."""
        if run_id == LIVE:
            return (await self._live.now()).select(window)
        path = self._runs.kept.path(run_id) / MESSAGES
        return (await self._kept.of(path)).select(window)
