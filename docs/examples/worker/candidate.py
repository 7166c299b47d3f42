"""Candidates of a leader election.

Each creates an ephemeral sequential znode below /election, and the candidate with the lowest number leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from zabka.ensemble.client.aio import connect
from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import ConnectionLoss, NodeExists

Lead = Callable[[str], None]
"""Called every 0.2 s with the name of the candidate that leads."""


async def stand(hosts: str, name: str, lead: Lead) -> None:
    """The mistake: after a lost connection the candidate creates a second znode, although the first still exists.

    Its session still exists too, and the first znode has the lower number. But the candidate no longer uses that znode,
    so no candidate leads until the program ends.
    """
    async with connect(hosts, session_timeout_ms=4_000, name=name) as client:
        while True:
            try:
                mine = await _create(client, name)
                while True:
                    await _lead_if_lowest(client, mine, name, lead)
            except ConnectionLoss:
                await asyncio.sleep(0.2)


async def stand_once(hosts: str, name: str, lead: Lead) -> None:
    """Corrected variant: after a lost connection, reuse the znode that the candidate created before.

    The candidate finds it by its name, which begins with the session id.
    """
    async with connect(hosts, session_timeout_ms=4_000, name=name) as client:
        while True:
            try:
                mine = await _find(client) or await _create(client, name)
                while True:
                    await _lead_if_lowest(client, mine, name, lead)
            except ConnectionLoss:
                await asyncio.sleep(0.2)


async def _create(client: Client, name: str) -> str:
    with suppress(NodeExists):
        await client.create("/election")
    path, _ = await client.create(f"/election/{client.session_id:x}-", name.encode(), ephemeral=True, sequential=True)
    return str(path).rpartition("/")[2]


async def _find(client: Client) -> str | None:
    if await client.exists("/election") is None:
        return None
    mine = f"{client.session_id:x}-"
    return next((each for each in await client.get_children("/election") if each.startswith(mine)), None)


async def _lead_if_lowest(client: Client, mine: str, name: str, lead: Lead) -> None:
    candidates = await client.get_children("/election")
    if min(candidates, key=lambda each: each.rpartition("-")[2]) == mine:
        lead(name)
    await asyncio.sleep(0.2)
