"""Clients that change link faults at the same time do not undo each other's changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.api.api_server import FakeAgent, settings
from zabka.api.collector.agents import Agents
from zabka.api.http.problems import Problem
from zabka.api.routes.faults import create_fault, delete_fault
from zabka.api.services import Services
from zabka.api.settings import AgentAddress
from zabka.api.views.models import NewFault
from zabka.ensemble.runtime.link_fault import AnyFault, HeldFault, LinkFault


def _service(directory: Path) -> Services:
    config = settings(directory)
    agents = Agents([FakeAgent(address) for address in config.agents])
    return cast(Services, SimpleNamespace(settings=config, agents=agents))


def _cut(source: str) -> NewFault:
    return NewFault(LinkFault(source=source, target="*", kind="cut"))


def test_fault_is_not_created_while_a_host_is_silent(tmp_path: Path) -> None:
    """While an agent does not reply, a request to create a fault fails and changes no host.

    Before the fix, the request failed with 503, but the fault was active on every other host.
    """
    service = _service(tmp_path)
    silent = FakeAgent(AgentAddress(name="host-2", url="http://127.0.0.1:1", nodes=[]))
    silent.freeze(2.0)
    service.agents.all.append(silent)

    async def refused() -> Problem:
        with pytest.raises(Problem) as found:
            await create_fault(_cut("broker-1"), service, "page")
        return found.value

    refusal = asyncio.run(refused())
    assert (refusal.status, "host-2" in refusal.detail) == (503, True)
    assert [agent.held for agent in (service.agents.all[0], silent) if isinstance(agent, FakeAgent)] == [[], []]


def test_concurrently_created_faults_both_apply(tmp_path: Path) -> None:
    service = _service(tmp_path)

    async def both() -> list[str]:
        await asyncio.gather(
            create_fault(_cut("broker-1"), service, "page"), create_fault(_cut("broker-2"), service, "page")
        )
        return [fault.source for fault in await service.agents.faults()]

    assert asyncio.run(both()) == ["broker-1", "broker-2"]


def test_creating_a_fault_does_not_restore_one_healed_meanwhile(tmp_path: Path) -> None:
    service = _service(tmp_path)

    async def one_for_another() -> list[str]:
        first = await create_fault(_cut("broker-1"), service, "page")
        await asyncio.gather(delete_fault(first.root.id, service), create_fault(_cut("broker-2"), service, "page"))
        return [fault.source for fault in await service.agents.faults()]

    assert asyncio.run(one_for_another()) == ["broker-2"]


def _hosts(*names: str) -> tuple[Agents, list[FakeAgent]]:
    agents = [FakeAgent(AgentAddress(name=name, url="http://127.0.0.1:1", nodes=[])) for name in names]
    return Agents(list(agents)), agents


FAULT = HeldFault(id="f1", source="broker-1", target="*", kind="cut")


async def _until(agents: Agents, seen: Callable[[], bool]) -> None:
    polls = asyncio.ensure_future(agents.run())
    try:
        async with asyncio.timeout(10):
            while True:
                if seen():
                    return
                await asyncio.sleep(0.01)
    finally:
        polls.cancel()


def test_restarted_agent_receives_the_existing_faults() -> None:
    """An agent that restarts receives the current link faults again.

    Before the fix, the API listed the faults, but the restarted agent's nodes did not apply them.
    """
    agents, (first, second) = _hosts("host-1", "host-2")

    async def run() -> None:
        await agents.set_faults([FAULT])
        second.restart_process()
        await _until(agents, lambda: second.held == [FAULT])

    asyncio.run(run())
    assert (first.held, first.faults_known, second.faults_known) == ([FAULT], True, True)


def test_faults_are_removed_when_all_agents_restart() -> None:
    agents, hosts = _hosts("host-1", "host-2")

    async def run() -> None:
        await agents.set_faults([FAULT])
        for each in hosts:
            each.restart_process()
        await _until(agents, lambda: all(each.faults_known for each in hosts))

    asyncio.run(run())
    assert [each.held for each in hosts] == [[], []]


def test_silent_agent_receives_the_faults_when_it_replies_again() -> None:
    """An agent receives the current link faults when it replies again.

    Otherwise a link would be partitioned or healed at one end only, although the API lists the whole link.
    """
    agents, (first, second) = _hosts("host-1", "host-2")

    async def change(faults: list[AnyFault]) -> str:
        second.freeze(0.1)
        with pytest.raises(Problem) as refusal:
            await agents.set_faults(faults)
        assert first.held == faults != second.held
        second.frozen = False
        # The silent agent still has the old list of faults. The API does not count this list until the agent has
        # received the new one.
        assert await agents.faults() == faults
        await _until(agents, lambda: second.held == faults)
        return refusal.value.detail

    detail = (
        "the host agent host-2 does not respond (frozen): it receives the faults as soon as it responds; "
        "the other agents did"
    )
    assert asyncio.run(change([FAULT])) == detail
    assert asyncio.run(change([])) == detail


def test_error_lists_every_agent_that_did_not_reply() -> None:
    """The error names both silent agents. Before the fix, it stated that the second one had applied the faults."""
    agents, (first, second, third) = _hosts("host-1", "host-2", "host-3")

    async def refused() -> str:
        with pytest.raises(Problem) as refusal:
            await agents.set_faults([FAULT])
        return refusal.value.detail

    second.freeze(0.1)
    third.freeze(0.1)
    detail = "the host agents host-2, host-3 do not respond (frozen): they receive the faults as soon as they respond"
    assert asyncio.run(refused()) == detail + "; the other agents did"
    first.freeze(0.1)
    assert asyncio.run(refused()) == detail.replace("host-2", "host-1, host-2")


def test_restarted_agent_also_receives_faults_of_a_silent_agent() -> None:
    """A restarted agent receives the faults known to the responding agents immediately.

    It receives the remaining faults once the silent agent responds.
    """
    agents, (first, second, third) = _hosts("host-1", "host-2", "host-3")

    async def run() -> None:
        await first.set_faults([FAULT])
        first.freeze(3.0)
        other = HeldFault(id="f2", source="broker-2", target="*", kind="cut")
        await third.set_faults([other])
        second.restart_process()
        await _until(agents, lambda: second.held == [other])
        assert not second.faults_known
        first.frozen = False
        await _until(agents, lambda: second.faults_known)
        assert second.held == [FAULT, other]

    asyncio.run(run())
