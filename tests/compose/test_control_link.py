"""The agent's control connection to a node: the requests that it sends, and which responses it uses."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from zabka.compose.control_link import ControlLink

LONG_S = 20.0


def test_refresh_waits_for_the_reply_to_its_own_request(tmp_path: Path) -> None:
    """A refresh waits for the response to its own request.

    During the refresh, the node also replies to an earlier request, with its status from before the refresh.
    """

    async def scene() -> dict[str, object]:
        asked, begun, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        statuses = iter(({"v": "old"}, {"v": "new"}))

        async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                if "status" in json.loads(line):
                    asked.set()
                    await begun.wait()
                    writer.write(json.dumps(next(statuses)).encode() + b"\n")
            writer.close()
            await writer.wait_closed()
            ended.set()

        server = await asyncio.start_unix_server(node, tmp_path / "s")
        link = ControlLink(tmp_path / "s", lambda: time.monotonic_ns() // 1_000_000, lambda: b'{"faults": []}')
        talking = asyncio.create_task(link.run())
        await asked.wait()
        refreshing = asyncio.create_task(link.refresh(LONG_S))
        await asyncio.sleep(0)
        begun.set()
        await refreshing
        talking.cancel()
        await ended.wait()
        server.close()
        return link.status

    assert asyncio.run(asyncio.wait_for(scene(), LONG_S)) == {"v": "new"}
