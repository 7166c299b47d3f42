"""Clients of the host agents. They poll process tables and node statuses, and request actions on processes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from zabka.agent.client import AgentHttp, AgentSilent, AgentUnreachable
from zabka.agent.protocol import (
    FaultState,
    JournalAnswer,
    JournalRequest,
    NodeAction,
    Position,
    ProcessInfo,
    Refusal,
    Snapshot,
)
from zabka.api.http.problems import Problem
from zabka.api.settings import AgentAddress
from zabka.ensemble.runtime.link_fault import AnyFault

POLL_INTERVAL_S = 0.25
IDLE_INTERVAL_S = 0.5
"""Interval in seconds between polls of an agent while no client watches the agent's nodes.

It is short enough that one slow response does not make the agent count as silent.
"""
WATCHED_S = 5.0
"""Seconds after a client's last request for a node during which the client counts as watching."""
ACTION_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 5.0
SILENT_AFTER_S = 2.0
"""Seconds of an agent's silence after which its last report is no longer presented as the current state."""

S = TypeVar("S", bound=msgspec.Struct)


class LastStatus(NamedTuple):
    """Last status that a node reported, and the age of that status."""

    status: dict[str, Any]
    age_ms: int


class Silence(NamedTuple):
    """A host agent that does not respond.

    `since_us` is when it last responded (or was first polled), in microseconds of this host's wall clock. `remedy` is
    how to bring it back.
    """

    host: str
    url: str
    since_us: int
    remedy: str = ""


class Agent:
    """Client of one host agent, over HTTP. `clock_s` is a monotonic clock, in seconds."""

    def __init__(self, address: AgentAddress, token: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.name = address.name
        self.url = address.url
        self.nodes = address.nodes
        self._remedy = address.remedy
        self.snapshot: Snapshot | None = None
        self._clock_s = clock_s
        self._last_contact_s = clock_s()
        self._last_contact_us = time.time_ns() // 1000
        self._http = AgentHttp(address.url, token)

    async def refresh(self, fresh_ms: int = 0) -> None:
        """Fetch the host's process table and the statuses of its nodes.

        With `fresh_ms`, the agent polls the nodes now and waits at most that long for their replies. Raises AgentSilent
        if the agent does not respond.
        """
        path = f"/v1/snapshot?fresh_ms={fresh_ms}" if fresh_ms else "/v1/snapshot"
        # Limit the time of the call, so that a stalled connection (network partition or frozen host) is closed as soon
        # as its response would be too late to be useful.
        self.receive(await self._call("GET", path, Snapshot, timeout_s=SILENT_AFTER_S))

    def receive(self, snapshot: Snapshot) -> None:
        """Store a snapshot that the agent has just sent."""
        self.snapshot = snapshot
        self._last_contact_s, self._last_contact_us = self._clock_s(), time.time_ns() // 1000

    @property
    def last_contact_ms_ago(self) -> int:
        """Milliseconds since the agent's last response."""
        return int((self._clock_s() - self._last_contact_s) * 1000)

    @property
    def silence(self) -> Silence | None:
        """The agent's silence if it has lasted for SILENT_AFTER_S or the agent has never responded; otherwise None."""
        if self.snapshot is not None and self._clock_s() - self._last_contact_s < SILENT_AFTER_S:
            return None
        return Silence(self.name, self.url, self._last_contact_us, self._remedy)

    async def request_action(self, node: str, action: NodeAction, requester: str) -> ProcessInfo:
        """Request an action on a node's process from the agent, and return the resulting process state.

        Raises Problem; if the agent becomes silent during the action, the status is 503, and the call does not wait for
        the action any longer.
        """
        path = f"/v1/processes/{node}/{action}?requester={quote(requester)}"
        call = asyncio.ensure_future(self._call("POST", path, ProcessInfo, timeout_s=ACTION_TIMEOUT_S))
        try:
            while not call.done() and self.silence is None:
                await asyncio.wait({call}, timeout=POLL_INTERVAL_S)
            if not call.done():
                raise self._fate_unknown(node, action, "it stopped responding")
            done = await call
        except AgentUnreachable as reason:
            raise Problem(503, f"the host agent {self.name} does not respond ({reason}): no action on {node}") from None
        except AgentSilent as reason:
            raise self._fate_unknown(node, action, str(reason)) from None
        finally:
            call.cancel()
        with contextlib.suppress(AgentSilent):
            await self.refresh()
        return done

    def _fate_unknown(self, node: str, action: str, reason: str) -> Problem:
        text = f"the host agent {self.name} did not respond ({reason}): {action} {node} may have been carried out"
        return Problem(503, text)

    async def read_journal(self, positions: dict[str, Position], wait_ms: int) -> JournalAnswer:
        """Return the journal lines after these positions."""
        request = JournalRequest(positions, wait_ms)
        return await self._call("POST", "/v1/journal", JournalAnswer, request, CALL_TIMEOUT_S + wait_ms / 1000)

    async def read_messages(self, positions: dict[str, Position]) -> JournalAnswer:
        """Return the message log entries that nodes have written after these positions."""
        return await self._call("POST", "/v1/messages", JournalAnswer, JournalRequest(positions), CALL_TIMEOUT_S)

    async def faults(self) -> list[AnyFault]:
        """Return the link faults that are active at this agent."""
        return (await self._call("GET", "/v1/faults", FaultState, timeout_s=SILENT_AFTER_S)).all

    async def set_faults(self, faults: list[AnyFault], *, whole: bool = True) -> None:
        """Replace the agent's active faults with exactly these faults.

        If `whole` is False, the list may be incomplete: the agent is still sent the complete list later.
        """
        await self._call("PUT", "/v1/faults", FaultState, FaultState.of(faults, whole))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    async def _call(
        self,
        method: str,
        path: str,
        shape: type[S],
        body: msgspec.Struct | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> S:
        content = msgspec.json.encode(body) if body is not None else b""
        answer = await self._http.call(method, path, content, timeout_s=timeout_s)
        if answer.status >= 400:
            raise self._refused(answer.status, answer.body)
        return msgspec.json.decode(answer.body, type=shape)

    def _refused(self, status: int, body: bytes) -> Problem:
        try:
            refusal = msgspec.json.decode(body, type=Refusal)
        except msgspec.MsgspecError:
            return Problem(503, f"the host agent {self.name} answered {status}")
        return Problem(refusal.status if refusal.status in (404, 409, 422) else 503, refusal.detail)


def _not_delivered(silent: dict[str, AgentSilent]) -> str:
    names, reasons = ", ".join(silent), ", ".join(dict.fromkeys(map(str, silent.values())))
    if len(silent) == 1:
        return f"the host agent {names} does not respond ({reasons}): it receives the faults as soon as it responds"
    return f"the host agents {names} do not respond ({reasons}): they receive the faults as soon as they respond"


class Agents:
    """The host agents of the cluster."""

    def __init__(self, agents: list[Agent], clock_s: Callable[[], float] = time.monotonic) -> None:
        self.all = agents
        self._clock_s = clock_s
        self._asked_s = clock_s()
        self._by_node = {node: agent for agent in agents for node in agent.nodes}
        self._faults_change = asyncio.Lock()
        self._due: dict[str, list[AnyFault]] = {}
        """Faults that still have to be sent, for each agent that did not respond when the faults were set."""

    async def run(self) -> None:
        """Keep every agent's snapshot fresh until cancelled.

        If one polling task fails, the others are cancelled with it, so that the supervisor notices and restarts all of
        them.
        """
        async with asyncio.TaskGroup() as polls:
            for agent in self.all:
                polls.create_task(self._keep_fresh(agent), name=f"looking at {agent.name}")

    async def _keep_fresh(self, agent: Agent) -> None:
        while True:
            # Continue polling an agent that is down or restarting.
            with contextlib.suppress(AgentSilent, Problem, msgspec.MsgspecError):
                await agent.refresh()
                if agent.name in self._due:
                    await self._send_due_faults(agent)
                elif agent.snapshot is not None and not agent.snapshot.faults_known:
                    await self._send_faults(agent)
            await asyncio.sleep(self.interval_s)

    async def _send_due_faults(self, agent: Agent) -> None:
        """Send an agent the faults that it has not acknowledged, so that no link is partitioned at one end only."""
        async with self._faults_change:
            if agent.name in self._due:
                await agent.set_faults(self._due[agent.name])
                del self._due[agent.name]

    async def _send_faults(self, agent: Agent) -> None:
        """Send a restarted agent the active faults that the other agents report.

        Faults last until they are removed, so a restart of an agent must not end them.
        """
        async with self._faults_change:
            faults, answered = await self._faults_by_those_that_answer()
            whole = answered == len(self.all)
            if whole or faults != await agent.faults():
                await agent.set_faults(faults, whole=whole)

    @property
    def interval_s(self) -> float:
        """Interval between two polls of an agent. It is longer while no client watches."""
        return POLL_INTERVAL_S if self._clock_s() - self._asked_s < WATCHED_S else IDLE_INTERVAL_S

    async def refresh(self, fresh_ms: int) -> None:
        """Poll every node now. Do not wait for silent hosts; their nodes keep their last reported statuses."""
        asked = [agent.refresh(fresh_ms) for agent in self.all if agent.silence is None]
        await asyncio.gather(*asked, return_exceptions=True)

    def silence(self, node: str) -> Silence | None:
        """Return the silence of a node's host agent, or None while the agent responds."""
        agent = self._by_node.get(node)
        return None if agent is None else agent.silence

    def process(self, node: str) -> ProcessInfo | None:
        """Return a node's process as last reported by its agent."""
        self._asked_s = self._clock_s()
        agent = self._by_node.get(node)
        if agent is None or agent.snapshot is None:
            return None
        return next((p for p in agent.snapshot.processes if p.name == node), None)

    def taken_us(self, node: str) -> int:
        """Return the time at which the agent last reported this node's process, on the clock of the node's host; 0 if
        never.
        """
        agent = self._by_node.get(node)
        return agent.snapshot.taken_us if agent is not None and agent.snapshot is not None else 0

    def last_status(self, node: str) -> LastStatus | None:
        """Return a node's last status."""
        agent = self._by_node.get(node)
        if agent is None or agent.snapshot is None:
            return None
        for status in agent.snapshot.statuses:
            if status.name == node:
                return LastStatus(status.status, status.age_ms + agent.last_contact_ms_ago)
        return None

    async def request_action(self, node: str, action: NodeAction, requester: str) -> ProcessInfo:
        """Request an action on a node's process from the node's agent. Raises Problem."""
        return await self._by_node[node].request_action(node, action, requester)

    async def faults(self) -> list[AnyFault]:
        """Return the active faults, as the responding agents report them. Raises Problem 503 if none responds."""
        known = await self.known_faults()
        if known is None:
            names = ", ".join(agent.name for agent in self.all)
            raise Problem(503, f"no host agent responds ({names}): the faults are unknown")
        return known

    def fault_counts(self, fault_id: str) -> dict[str, tuple[int, int]]:
        """Return two counts of a request fault for each node: matching requests, and requests to which it was applied.

        The counts are those that the nodes last reported.
        """
        found = {}
        for node in self._by_node:
            last = self.last_status(node)
            counts = None if last is None else last.status.get("request_faults", {}).get(fault_id)
            if counts is not None:
                found[node] = (int(counts[0]), int(counts[1]))
        return found

    async def known_faults(self) -> list[AnyFault] | None:
        """Return the active faults, or None if no agent responds. Raises Problem."""
        faults, answered = await self._faults_by_those_that_answer()
        return faults if answered else None

    async def _faults_by_those_that_answer(self) -> tuple[list[AnyFault], int]:
        """Return the active faults that the responding agents report, and the number of these agents."""
        asked = [agent for agent in self.all if agent.silence is None]
        known: dict[str, AnyFault] = {}
        answers = await asyncio.gather(*(agent.faults() for agent in asked), return_exceptions=True)
        for agent, answer in zip(asked, answers, strict=True):
            if isinstance(answer, list):
                known.update({f.id: f for f in self._due.get(agent.name, answer)})
            elif not isinstance(answer, AgentSilent):
                raise answer
        return list(known.values()), sum(isinstance(answer, list) for answer in answers)

    @contextlib.asynccontextmanager
    async def changing_faults(self) -> AsyncIterator[list[AnyFault]]:
        """Yield the active faults while holding the lock that protects changes to the faults.

        Without the lock, one of two changes at the same time could overwrite the other. Raises Problem.
        """
        async with self._faults_change:
            yield await self.faults()

    async def set_faults(self, faults: list[AnyFault]) -> None:
        """Make exactly these faults active on all agents.

        Raises Problem if an agent cannot be reached. The other agents have applied the faults by then, and the
        unreachable agent receives them as soon as it responds.
        """
        answers = await asyncio.gather(*(agent.set_faults(faults) for agent in self.all), return_exceptions=True)
        results = list(zip(self.all, answers, strict=True))
        self._due = {agent.name: faults for agent, answer in results if isinstance(answer, BaseException)}
        silent = {agent.name: answer for agent, answer in results if isinstance(answer, AgentSilent)}
        for answer in answers:
            if isinstance(answer, AgentSilent):
                others = "; the other agents did" if len(self._due) < len(results) else ""
                raise Problem(503, _not_delivered(silent) + others)
            if isinstance(answer, BaseException):
                raise answer

    def close(self) -> None:
        """Close all connections."""
        for agent in self.all:
            agent.close()
