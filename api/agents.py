"""The API's side of the host agents: their process tables and statuses, kept fresh, and the actions they carry out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, NamedTuple, TypeVar

import httpx
import msgspec

from api.agent_protocol import (
    FaultState,
    JournalAnswer,
    JournalRequest,
    Position,
    ProcessInfo,
    Refusal,
    Snapshot,
)
from api.problems import Problem
from api.settings import AgentAddress
from ensemble.runtime.link_fault import HeldFault

POLL_INTERVAL_S = 0.25
ACTION_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 5.0

S = TypeVar("S", bound=msgspec.Struct)


class Word(NamedTuple):
    """What a node said last, and how old that is."""

    status: dict[str, Any]
    age_ms: int


class Agent:
    """One host agent, over HTTP."""

    def __init__(self, address: AgentAddress, token: str) -> None:
        self.name = address.name
        self.nodes = address.nodes
        self.snapshot: Snapshot | None = None
        self.seen_s = 0.0
        self._client = httpx.AsyncClient(
            base_url=address.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=CALL_TIMEOUT_S,
            trust_env=False,
        )

    async def refresh(self, fresh_ms: int = 0) -> None:
        """Fetch the process table and statuses; with `fresh_ms` the nodes are asked now, and waited for so long.

        Raises httpx.HTTPError when the agent does not answer.
        """
        path = f"/v1/snapshot?fresh_ms={fresh_ms}" if fresh_ms else "/v1/snapshot"
        self.snapshot = await self._call("GET", path, Snapshot)
        self.seen_s = time.monotonic()

    async def act(self, node: str, action: str) -> ProcessInfo:
        """Carry an action out; returns the process as it is then.  Raises Problem."""
        try:
            path = f"/v1/processes/{node}/{action}"
            done = await self._call("POST", path, ProcessInfo, timeout_s=ACTION_TIMEOUT_S)
            with contextlib.suppress(httpx.HTTPError):
                await self.refresh()
            return done
        except httpx.HTTPError as reason:
            raise Problem(503, f"the host agent {self.name} does not answer: {reason!r}") from None

    async def read_journal(self, positions: dict[str, Position], wait_ms: int) -> JournalAnswer:
        """New journal lines after these positions."""
        request = JournalRequest(positions, wait_ms)
        return await self._call("POST", "/v1/journal", JournalAnswer, request, CALL_TIMEOUT_S + wait_ms / 1000)

    async def faults(self) -> list[HeldFault]:
        """The link faults that hold at this agent."""
        return (await self._call("GET", "/v1/faults", FaultState)).faults

    async def set_faults(self, faults: list[HeldFault]) -> None:
        """Make exactly these faults hold."""
        await self._call("PUT", "/v1/faults", FaultState, FaultState(faults))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _call(
        self,
        method: str,
        path: str,
        shape: type[S],
        body: msgspec.Struct | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> S:
        content = msgspec.json.encode(body) if body is not None else None
        answer = await self._client.request(method, path, content=content, timeout=timeout_s)
        if answer.is_error:
            try:
                refusal = msgspec.json.decode(answer.content, type=Refusal)
            except msgspec.MsgspecError:
                raise Problem(503, f"the host agent {self.name} answered {answer.status_code}") from None
            status = refusal.status if refusal.status in (404, 409, 422) else 503
            raise Problem(status, refusal.detail)
        return msgspec.json.decode(answer.content, type=shape)


class Agents:
    """All host agents of the cluster."""

    def __init__(self, agents: list[Agent]) -> None:
        self.all = agents
        self._by_node = {node: agent for agent in agents for node in agent.nodes}

    async def run(self) -> None:
        """Keep every agent's snapshot fresh, until cancelled."""
        await asyncio.gather(*(self._keep_fresh(agent) for agent in self.all))

    async def _keep_fresh(self, agent: Agent) -> None:
        while True:
            # An agent that is down or restarting is no reason to stop looking.
            with contextlib.suppress(httpx.HTTPError, Problem, msgspec.MsgspecError):
                await agent.refresh()
            await asyncio.sleep(POLL_INTERVAL_S)

    async def refresh(self, fresh_ms: int) -> None:
        """Ask every node now; those that do not answer keep their last word."""
        await asyncio.gather(*(agent.refresh(fresh_ms) for agent in self.all), return_exceptions=True)

    def process(self, node: str) -> ProcessInfo | None:
        """A node's process, as last seen."""
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
                since_ms = int((time.monotonic() - agent.seen_s) * 1000)
                return Word(status.status, status.age_ms + since_ms)
        return None

    async def act(self, node: str, action: str) -> ProcessInfo:
        """Carry an action out on a node.  Raises Problem."""
        return await self._by_node[node].act(node, action)

    async def faults(self) -> list[HeldFault]:
        """The faults that hold, as the agents know them.  Raises Problem."""
        known: dict[str, HeldFault] = {}
        for agent in self.all:
            with contextlib.suppress(httpx.HTTPError):
                known.update({f.id: f for f in await agent.faults()})
        return list(known.values())

    async def set_faults(self, faults: list[HeldFault]) -> None:
        """Make exactly these faults hold, everywhere.  Raises Problem where an agent cannot be told."""
        answers = await asyncio.gather(*(agent.set_faults(faults) for agent in self.all), return_exceptions=True)
        for agent, answer in zip(self.all, answers, strict=True):
            if isinstance(answer, httpx.HTTPError):
                raise Problem(503, f"the host agent {agent.name} does not answer: {answer!r}")
            if isinstance(answer, BaseException):
                raise answer

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(agent.close() for agent in self.all))
