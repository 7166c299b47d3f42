"""Link faults that several people change at the same time: nobody undoes what another has done."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from api.agents import Agents
from api.models import NewFault
from api.problems import Problem
from api.routes_faults import create_fault, delete_fault
from api.services import Services
from api.settings import AgentAddress
from ensemble.runtime.link_fault import LinkFault
from tests.api.api_server import FakeAgent, settings


def _service(directory: Path) -> Services:
    wanted = settings(directory)
    agents = Agents([FakeAgent(address) for address in wanted.agents])
    return cast(Services, SimpleNamespace(settings=wanted, agents=agents))


def _cut(source: str) -> NewFault:
    return NewFault(LinkFault(source=source, target="*", kind="cut"))


def test_no_fault_is_made_while_a_host_is_silent(tmp_path: Path) -> None:
    """It was answered 503, and held on every other host."""
    service = _service(tmp_path)
    silent = FakeAgent(AgentAddress(name="host-2", url="http://127.0.0.1:1", nodes=[]))
    silent.freeze(2.0)
    service.agents.all.append(silent)

    async def refused() -> Problem:
        with pytest.raises(Problem) as found:
            await create_fault(_cut("broker-1"), service)
        return found.value

    refusal = asyncio.run(refused())
    assert (refusal.status, "host-2" in refusal.detail) == (503, True)
    assert [agent.held for agent in (service.agents.all[0], silent) if isinstance(agent, FakeAgent)] == [[], []]


def test_two_faults_made_at_the_same_time_both_hold(tmp_path: Path) -> None:
    service = _service(tmp_path)

    async def both() -> list[str]:
        await asyncio.gather(create_fault(_cut("broker-1"), service), create_fault(_cut("broker-2"), service))
        return [fault.source for fault in await service.agents.faults()]

    assert asyncio.run(both()) == ["broker-1", "broker-2"]


def test_a_fault_made_while_another_is_healed_does_not_bring_that_back(tmp_path: Path) -> None:
    service = _service(tmp_path)

    async def one_for_another() -> list[str]:
        first = await create_fault(_cut("broker-1"), service)
        await asyncio.gather(delete_fault(first.root.id, service), create_fault(_cut("broker-2"), service))
        return [fault.source for fault in await service.agents.faults()]

    assert asyncio.run(one_for_another()) == ["broker-2"]
