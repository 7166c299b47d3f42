"""A client that accepts a read-only server leaves it when it finds a writable one, on virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import msgspec

from tests.ensemble.client.client_fakes import PASSWORD, FakeEnsemble
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import SessionState
from zabka.ensemble.records import ConnectRequest, ConnectResponse

CONNECTED, SUSPENDED, READ_ONLY = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.CONNECTED_READ_ONLY
NEW, RESUMED = (0, bytes(16)), (0x1000, PASSWORD)


class Partitioned(FakeEnsemble):
    """Ensemble whose servers are all read-only, except the server `writable`."""

    def __init__(self, writable: str = "") -> None:
        super().__init__()
        self.writable = writable
        self.asked: list[tuple[int, str]] = []

    def open_session(self, request: ConnectRequest) -> ConnectResponse:
        read_only = self.last.host != self.writable
        return msgspec.structs.replace(super().open_session(request), read_only=read_only)

    def ask_word(self, host: str, word: str, on_reply: Callable[[str], None]) -> None:
        assert word == "isro"
        self.asked.append((self.now_ms, host))
        answer = "" if host in self.refusing else "rw" if host == self.writable else "ro"
        self.scheduler.after(1_000, lambda: on_reply(answer))

    def begin(self, hosts: str = "a:1,b:2,c:3") -> tuple[Client, list[SessionState]]:
        client = Client(hosts, self, self.runtime, session_timeout_ms=6_000, read_only=True, asker=self)
        states: list[SessionState] = []
        client.add_listener(states.append)
        self.run(client.start())
        return client, states

    def session_asked_for(self) -> tuple[int, bytes | None]:
        request = self.last.sent[0]
        assert isinstance(request, ConnectRequest) and request.read_only
        return request.session_id, request.password


def test_client_that_allows_read_only_uses_a_read_only_server() -> None:
    world = Partitioned()
    client, states = world.begin()
    assert states == [READ_ONLY] and client.state is READ_ONLY
    assert world.run(client.get("/a"))[0] == b"/a"


def test_read_only_client_probes_other_servers_with_backoff() -> None:
    world = Partitioned()
    world.begin()
    start_ms = world.now_ms
    world.advance(20_000)
    times = [at - start_ms for at, _ in world.asked]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 95 <= times[0] <= 105
    assert pauses == sorted(pauses) and 195 <= pauses[0] <= 205 and pauses[-1] <= 5_001
    assert {host for _, host in world.asked} == {"a:1", "b:2", "c:3"}


def test_read_only_client_moves_to_first_server_with_a_leader() -> None:
    world = Partitioned()
    client, states = world.begin()
    world.refusing = {"c:3"}
    found = next(host for host in ("a:1", "b:2") if host != world.last.host)
    world.writable = found
    world.advance(3_000)
    assert states == [READ_ONLY, SUSPENDED, CONNECTED] and client.server == found
    assert len(world.attempts) == 2, "the client moved there at once"
    asked = len(world.asked)
    world.advance(10_000)
    assert len(world.asked) == asked, "the search has ended"


def test_session_of_a_read_only_server_is_not_resumed_elsewhere() -> None:
    world = Partitioned()
    client, states = world.begin()
    first = client.session_id
    world.writable = "b:2"
    world.last.drop()
    world.advance(6_000)
    assert states[-1] is CONNECTED
    assert world.session_asked_for() == NEW and client.session_id != first


def test_read_only_client_requests_its_global_session_again() -> None:
    world = Partitioned(writable="a:1")
    _, states = world.begin("a:1")
    assert states == [CONNECTED]
    world.writable = ""
    world.last.drop()
    world.advance(100)
    assert states[-1] is READ_ONLY and world.session_asked_for() == RESUMED
    world.last.drop()
    world.advance(100)
    assert world.session_asked_for() == RESUMED


def test_closing_the_client_ends_its_search_for_another_server() -> None:
    world = Partitioned()
    client, _ = world.begin()
    world.run(client.close())
    world.advance(10_000)
    assert world.asked == []


def test_four_letter_words_use_tcp_and_time_out() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readexactly(4) == b"isro":
            writer.write(b"rw")
        writer.close()

    async def ask(connector: AsyncioConnector, server: str) -> str:
        reply: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        connector.ask_word(server, "isro", reply.set_result)
        return await reply

    async def main() -> None:
        connector = AsyncioConnector()
        listening = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        assert await ask(connector, f"127.0.0.1:{port}") == "rw"
        listening.close()
        await listening.wait_closed()
        assert await ask(connector, f"127.0.0.1:{port}") == ""
        assert await ask(connector, "no port here") == ""

    asyncio.run(main())
