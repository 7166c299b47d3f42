"""The API's side of the host agents: their process tables and statuses, kept fresh, and the actions they carry out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, TypeVar

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
from zabka.ensemble.runtime.link_fault import HeldFault

POLL_INTERVAL_S = 0.25
IDLE_INTERVAL_S = 0.5
"""While nobody asks; short enough that one slow answer is no silence yet."""
WATCHED_S = 5.0
"""So long after the last question about a node somebody is taken to watch."""
ACTION_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 5.0
SILENT_AFTER_S = 2.0
"""From then on nothing that an agent said before is told as what is."""

S = TypeVar("S", bound=msgspec.Struct)


class Word(NamedTuple):
    """What a node said last, and how old that is."""

    status: dict[str, Any]
    age_ms: int


class Silence(NamedTuple):
    """A host agent that does not answer: its name, its address, when it was heard last (or first asked), in
    microseconds by this host's wall clock, and what brings it back."""

    host: str
    url: str
    since_us: int
    remedy: str = ""


class Agent:
    """One host agent, over HTTP.  `clock_s` is a monotonic clock, in seconds."""

    def __init__(self, address: AgentAddress, token: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.name = address.name
        self.url = address.url
        self.nodes = address.nodes
        self._remedy = address.remedy
        self.snapshot: Snapshot | None = None
        self._clock_s = clock_s
        self._heard_s = clock_s()
        self._heard_us = time.time_ns() // 1000
        self._http = AgentHttp(address.url, token)

    async def refresh(self, fresh_ms: int = 0) -> None:
        """Fetch the process table and statuses; with `fresh_ms` the nodes are asked now, and waited for so long.

        Raises AgentSilent when the agent does not answer.
        """
        path = f"/v1/snapshot?fresh_ms={fresh_ms}" if fresh_ms else "/v1/snapshot"
        # A connection that a cut or a freeze left behind is given up as soon as its answer would come too late.
        self.hear(await self._call("GET", path, Snapshot, timeout_s=SILENT_AFTER_S))

    def hear(self, snapshot: Snapshot) -> None:
        """Take what the agent says now."""
        self.snapshot = snapshot
        self._heard_s, self._heard_us = self._clock_s(), time.time_ns() // 1000

    @property
    def heard_ms_ago(self) -> int:
        """How long ago it answered last, in milliseconds."""
        return int((self._clock_s() - self._heard_s) * 1000)

    @property
    def silence(self) -> Silence | None:
        """Its silence, where it has lasted for SILENT_AFTER_S or nothing was heard yet; None while it answers."""
        if self.snapshot is not None and self._clock_s() - self._heard_s < SILENT_AFTER_S:
            return None
        return Silence(self.name, self.url, self._heard_us, self._remedy)

    async def request_action(self, node: str, action: NodeAction) -> ProcessInfo:
        """Carry an action out; returns the process as it is then.

        Raises Problem; 503 without delay where the agent falls silent meanwhile.
        """
        path = f"/v1/processes/{node}/{action}"
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
        """New journal lines after these positions."""
        request = JournalRequest(positions, wait_ms)
        return await self._call("POST", "/v1/journal", JournalAnswer, request, CALL_TIMEOUT_S + wait_ms / 1000)

    async def read_messages(self, positions: dict[str, Position]) -> JournalAnswer:
        """What nodes have written of their messages after these positions."""
        return await self._call("POST", "/v1/messages", JournalAnswer, JournalRequest(positions), CALL_TIMEOUT_S)

    async def faults(self) -> list[HeldFault]:
        """The link faults that hold at this agent."""
        return (await self._call("GET", "/v1/faults", FaultState, timeout_s=SILENT_AFTER_S)).faults

    async def set_faults(self, faults: list[HeldFault], *, whole: bool = True) -> None:
        """Make exactly these faults hold; unless they are `whole`, it is to be told again."""
        await self._call("PUT", "/v1/faults", FaultState, FaultState(faults, whole))

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

    def _refused(self, status: int, said: bytes) -> Problem:
        try:
            refusal = msgspec.json.decode(said, type=Refusal)
        except msgspec.MsgspecError:
            return Problem(503, f"the host agent {self.name} answered {status}")
        return Problem(refusal.status if refusal.status in (404, 409, 422) else 503, refusal.detail)


def _told_later(silent: dict[str, AgentSilent]) -> str:
    names, reasons = ", ".join(silent), ", ".join(dict.fromkeys(map(str, silent.values())))
    if len(silent) == 1:
        return f"the host agent {names} does not respond ({reasons}): it receives the faults as soon as it responds"
    return f"the host agents {names} do not respond ({reasons}): they receive the faults as soon as they respond"


class Agents:
    """All host agents of the cluster."""

    def __init__(self, agents: list[Agent], clock_s: Callable[[], float] = time.monotonic) -> None:
        self.all = agents
        self._clock_s = clock_s
        self._asked_s = clock_s()
        self._by_node = {node: agent for agent in agents for node in agent.nodes}
        self._faults_change = asyncio.Lock()
        self._due: dict[str, list[HeldFault]] = {}
        """The faults that an agent is still to be told, which did not answer when all were."""

    async def run(self) -> None:
        """Keep every agent's snapshot fresh, until cancelled.  Where one fails the others end with it, so that whoever
        supervises sees it, and begins with all of them anew."""
        async with asyncio.TaskGroup() as polls:
            for agent in self.all:
                polls.create_task(self._keep_fresh(agent), name=f"looking at {agent.name}")

    async def _keep_fresh(self, agent: Agent) -> None:
        while True:
            # An agent that is down or restarting is no reason to stop looking.
            with contextlib.suppress(AgentSilent, Problem, msgspec.MsgspecError):
                await agent.refresh()
                if agent.name in self._due:
                    await self._tell_due(agent)
                elif agent.snapshot is not None and not agent.snapshot.faults_told:
                    await self._tell_faults(agent)
            await asyncio.sleep(self.interval_s)

    async def _tell_due(self, agent: Agent) -> None:
        """Tell an agent what it was not heard to take, or a link would be cut on one of its ends alone."""
        async with self._faults_change:
            if agent.name in self._due:
                await agent.set_faults(self._due[agent.name])
                del self._due[agent.name]

    async def _tell_faults(self, agent: Agent) -> None:
        """Tell an agent that began anew which faults hold, as the others know them: they last until they are healed."""
        async with self._faults_change:
            faults, answered = await self._faults_by_those_that_answer()
            whole = answered == len(self.all)
            if whole or faults != await agent.faults():
                await agent.set_faults(faults, whole=whole)

    @property
    def interval_s(self) -> float:
        """How long to wait until an agent is asked again: longer while nobody watches."""
        return POLL_INTERVAL_S if self._clock_s() - self._asked_s < WATCHED_S else IDLE_INTERVAL_S

    async def refresh(self, fresh_ms: int) -> None:
        """Ask every node now; those that do not answer keep their last word, and nobody waits for a silent host."""
        asked = [agent.refresh(fresh_ms) for agent in self.all if agent.silence is None]
        await asyncio.gather(*asked, return_exceptions=True)

    def silence(self, node: str) -> Silence | None:
        """The silence of the host agent that has a node; None while that answers."""
        agent = self._by_node.get(node)
        return None if agent is None else agent.silence

    def process(self, node: str) -> ProcessInfo | None:
        """A node's process, as last seen."""
        self._asked_s = self._clock_s()
        agent = self._by_node.get(node)
        if agent is None or agent.snapshot is None:
            return None
        return next((p for p in agent.snapshot.processes if p.name == node), None)

    def taken_us(self, node: str) -> int:
        """When a node's process was last looked at, by its host's clock; 0 for never."""
        agent = self._by_node.get(node)
        return agent.snapshot.taken_us if agent is not None and agent.snapshot is not None else 0

    def word(self, node: str) -> Word | None:
        """A node's last status."""
        agent = self._by_node.get(node)
        if agent is None or agent.snapshot is None:
            return None
        for status in agent.snapshot.statuses:
            if status.name == node:
                return Word(status.status, status.age_ms + agent.heard_ms_ago)
        return None

    async def request_action(self, node: str, action: NodeAction) -> ProcessInfo:
        """Carry an action out on a node.  Raises Problem."""
        return await self._by_node[node].request_action(node, action)

    async def faults(self) -> list[HeldFault]:
        """The faults that hold, as those agents know them that answer.  Raises Problem: 503 where none does."""
        known = await self.known_faults()
        if known is None:
            names = ", ".join(agent.name for agent in self.all)
            raise Problem(503, f"no host agent responds ({names}): the faults are unknown")
        return known

    async def known_faults(self) -> list[HeldFault] | None:
        """The same, or None where no agent answers.  Raises Problem."""
        faults, answered = await self._faults_by_those_that_answer()
        return faults if answered else None

    async def _faults_by_those_that_answer(self) -> tuple[list[HeldFault], int]:
        """The faults that hold, and how many agents have answered."""
        asked = [agent for agent in self.all if agent.silence is None]
        known: dict[str, HeldFault] = {}
        answers = await asyncio.gather(*(agent.faults() for agent in asked), return_exceptions=True)
        for agent, answer in zip(asked, answers, strict=True):
            if isinstance(answer, list):
                known.update({f.id: f for f in self._due.get(agent.name, answer)})
            elif not isinstance(answer, AgentSilent):
                raise answer
        return list(known.values()), sum(isinstance(answer, list) for answer in answers)

    @contextlib.asynccontextmanager
    async def changing_faults(self) -> AsyncIterator[list[HeldFault]]:
        """The faults that hold, for who will set others: one after the other, or one undid what another has just done.
        Raises Problem."""
        async with self._faults_change:
            yield await self.faults()

    async def set_faults(self, faults: list[HeldFault]) -> None:
        """Make exactly these faults hold, everywhere.  Raises Problem where an agent cannot be told: the others have
        taken them then, and it is told as soon as it answers."""
        answers = await asyncio.gather(*(agent.set_faults(faults) for agent in self.all), return_exceptions=True)
        told = list(zip(self.all, answers, strict=True))
        self._due = {agent.name: faults for agent, answer in told if isinstance(answer, BaseException)}
        silent = {agent.name: answer for agent, answer in told if isinstance(answer, AgentSilent)}
        for answer in answers:
            if isinstance(answer, AgentSilent):
                others = "; the other agents did" if len(self._due) < len(told) else ""
                raise Problem(503, _told_later(silent) + others)
            if isinstance(answer, BaseException):
                raise answer

    def close(self) -> None:
        """Close all connections."""
        for agent in self.all:
            agent.close()
