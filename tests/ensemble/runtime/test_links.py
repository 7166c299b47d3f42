"""Link faults: data in a partitioned direction waits until the link is healed.

Delayed data arrives late, but complete and in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from zabka.ensemble.runtime.link_fault import ANY, DELAY_MS_MAX, HeldFault, Impairment, Kind, LinkFault, impairment
from zabka.ensemble.runtime.links import ControlSocket, FaultTable, LinkFaults, LinkState

PATIENCE_S = 5.0
SHORT_S = 0.05

CUT = Impairment(cut=True)


class Echo:
    """Echo server that records the received bytes and how many connections have ended."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.changed = asyncio.Condition()
        self.connections = 0
        self.ended = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await self._note(connections=1)
        while data := await reader.read(1000):
            self.got += data
            await self._note()
            writer.write(data)
        await self._note(ended=1)
        writer.close()

    async def _note(self, connections: int = 0, ended: int = 0) -> None:
        self.connections += connections
        self.ended += ended
        async with self.changed:
            self.changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self.changed:
            await self.changed.wait_for(condition)


@asynccontextmanager
async def echo_server() -> AsyncIterator[tuple[Echo, int, LinkFaults]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    try:
        yield echo, port, LinkFaults({f"localhost:{port}": "peer-2"})
    finally:
        server.close()
        for writer in echo.writers:
            writer.close()
        await asyncio.sleep(0)


def one_way(direction: str, kind: Kind, delay_ms: int = 0, remote: str = "peer-2") -> HeldFault:
    source, target = ("peer-1", remote) if direction == "out" else (remote, "peer-1")
    return HeldFault(source, target, kind, delay_ms, both_ways=False, id=direction)


def cut(*directions: str, remote: str = "peer-2") -> FaultTable:
    return FaultTable([one_way(direction, "cut", remote=remote) for direction in directions], "peer-1")


async def nothing_comes(awaitable: Awaitable[object]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(awaitable, SHORT_S)


def run(scenario: Callable[[Echo, int, LinkFaults], Awaitable[None]]) -> None:
    async def main() -> None:
        async with echo_server() as (echo, port, faults):
            await scenario(echo, port, faults)

    asyncio.run(main())


def test_link_without_faults_passes_all_bytes() -> None:
    async def scenario(echo: Echo, port: int, faults: LinkFaults) -> None:
        reader, writer = await faults.open_streams("127.0.0.1", port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()
        await writer.wait_closed()
        await echo.until(lambda: echo.ended == 1)

    run(scenario)


def test_bytes_sent_into_a_cut_link_arrive_when_it_heals() -> None:
    async def scenario(echo: Echo, port: int, faults: LinkFaults) -> None:
        reader, writer = await faults.open_streams("127.0.0.1", port)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        faults.apply(cut("out"))
        writer.write(b"b")
        await nothing_comes(reader.readexactly(1))
        assert echo.got == b"a"
        writer.write(b"c")
        faults.apply(cut())
        assert await reader.readexactly(2) == b"bc"
        writer.close()

    run(scenario)


def test_cut_of_the_inbound_direction_delays_received_bytes() -> None:
    async def scenario(echo: Echo, port: int, faults: LinkFaults) -> None:
        reader, writer = await faults.open_streams("127.0.0.1", port)
        faults.apply(cut("in", remote="*"))
        writer.write(b"b")
        await echo.until(lambda: echo.got == b"b")
        await nothing_comes(reader.readexactly(1))
        faults.apply(cut())
        assert await reader.readexactly(1) == b"b"
        writer.close()

    run(scenario)


def test_closing_a_connection_has_no_effect_across_a_cut_link() -> None:
    async def scenario(echo: Echo, port: int, faults: LinkFaults) -> None:
        _, writer = await faults.open_streams("127.0.0.1", port)
        await echo.until(lambda: echo.connections == 1)
        faults.apply(cut("out"))
        writer.write(b"last words")
        writer.close()
        await writer.wait_closed()
        await nothing_comes(echo.until(lambda: echo.ended == 1))
        faults.apply(cut())
        await echo.until(lambda: echo.ended == 1)
        assert echo.got == b"last words"
        other, writer = await faults.open_streams("127.0.0.1", port)
        await echo.until(lambda: echo.connections == 2)
        faults.apply(cut("in"))
        echo.writers[1].close()
        await nothing_comes(other.read())
        faults.apply(cut())
        async with asyncio.timeout(PATIENCE_S):
            assert await other.read() == b""
        writer.close()

    run(scenario)


@pytest.mark.parametrize("direction", ["out", "in"])
def test_new_connection_hangs_while_either_direction_is_cut(direction: str) -> None:
    async def scenario(echo: Echo, port: int, faults: LinkFaults) -> None:
        faults.apply(cut(direction))
        await nothing_comes(faults.open_streams("127.0.0.1", port))
        opening = asyncio.ensure_future(faults.open_streams("127.0.0.1", port))
        await asyncio.sleep(0)
        assert echo.connections == 0
        faults.apply(cut())
        _, writer = await asyncio.wait_for(opening, PATIENCE_S)
        writer.close()

    run(scenario)


def test_link_fault_set_during_a_connect_applies_to_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(echo: Echo, port: int, faults: LinkFaults) -> None:
        loop = asyncio.get_running_loop()
        connect = loop.create_connection

        async def connect_slowly(factory: Callable[[], asyncio.Protocol], host: str, port: int, **rest: Any) -> Any:
            # Like uvloop, create the protocol before connecting.
            link = factory()
            faults.apply(cut("out"))
            return await connect(lambda: link, host, port, **rest)

        monkeypatch.setattr(loop, "create_connection", connect_slowly)
        reader, writer = await faults.open_streams("localhost", port)
        writer.write(b"over the cut")
        await nothing_comes(reader.read(1))
        faults.apply(FaultTable(node="peer-1"))
        assert await reader.readexactly(12) == b"over the cut"
        writer.close()

    run(scenario)


def test_delay_fault_holds_back_bytes_in_order() -> None:
    async def scenario(echo: Echo, port: int, faults: LinkFaults) -> None:
        reader, writer = await faults.open_streams("127.0.0.1", port)
        faults.apply(FaultTable([one_way(direction, "delay", 40) for direction in ("out", "in")], "peer-1"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        for letter in (b"a", b"b", b"c"):
            writer.write(letter)
        assert await reader.readexactly(3) == b"abc"
        assert loop.time() - began >= 0.08
        writer.write(b"d")
        faults.apply(FaultTable())
        writer.write(b"e")
        assert await reader.readexactly(2) == b"de"
        writer.close()

    run(scenario)


def test_large_transfer_survives_a_temporary_link_cut() -> None:
    async def scenario(echo: Echo, port: int, faults: LinkFaults) -> None:
        reader, writer = await faults.open_streams("127.0.0.1", port)
        payload = bytes(range(256)) * 8000
        writer.write(payload)
        first = await reader.readexactly(1000)
        faults.apply(cut("out", "in"))
        writer.write(payload)
        await asyncio.sleep(SHORT_S)
        faults.apply(cut())
        async with asyncio.timeout(20):
            assert first + await reader.readexactly(2 * len(payload) - 1000) == payload * 2
        writer.close()

    run(scenario)


def test_links_of_other_nodes_are_unaffected() -> None:
    faults = LinkFaults({"10.0.0.1:5": "peer-3", "localhost:6": "peer-2"})
    faults.apply(cut("out", "in"))
    assert faults.state("127.0.0.1:6") == LinkState(CUT, CUT)
    assert faults.state("10.0.0.1:5") == LinkState()
    assert faults.state("10.9.9.9:5") == LinkState()


def test_link_fault_affects_only_the_links_that_it_names() -> None:
    one_way = LinkFault("a", "b", "cut", both_ways=False)
    assert [one_way.touches(*ends) for ends in (("a", "b"), ("b", "a"), ("a", "c"), ("a", None))] == [
        True,
        *[False] * 3,
    ]
    both = LinkFault("a", "b", "cut")
    assert both.touches("b", "a") and not both.touches("b", "c")
    all_of_a = LinkFault("a", ANY, "cut")
    assert all(all_of_a.touches(*ends) for ends in (("a", "b"), ("b", "a"), ("a", None), (None, "a")))
    assert not all_of_a.touches("b", "c")


def test_longest_delay_and_a_cut_of_a_link_apply_together() -> None:
    slow = [LinkFault("a", "b", "delay", delay_ms) for delay_ms in (30, 70, 50)]
    assert impairment(slow, "b", "a") == Impairment(delay_ms=70)
    assert impairment([*slow, LinkFault("a", ANY, "cut")], "a", "b") == Impairment(cut=True, delay_ms=70)
    assert impairment(slow, "a", "c") == Impairment()


@pytest.mark.parametrize(
    "wrong",
    [
        {"from": "a", "to": "a", "kind": "cut"},
        {"from": "a", "to": "b", "kind": "delay"},
        {"from": "a", "to": "b", "kind": "delay", "delay_ms": DELAY_MS_MAX + 1},
        {"from": "a", "to": "b", "kind": "delay", "delay_ms": -1},
        {"from": "a", "to": "b", "kind": "snap"},
        {"from": "a", "to": "b", "kind": "cut", "speed": 3},
        {"from": "a", "kind": "cut"},
    ],
)
def test_invalid_link_fault_is_rejected_when_decoded(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, LinkFault)


def test_control_socket_replaces_the_link_faults_or_rejects_them(tmp_path: Path) -> None:
    async def main() -> None:
        faults = LinkFaults()
        control = ControlSocket(str(tmp_path / "ctl.sock"), faults.apply)
        await control.start()
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "ctl.sock"))

        async def ask(line: bytes) -> object:
            writer.write(line + b"\n")
            return msgspec.json.decode(await asyncio.wait_for(reader.readline(), PATIENCE_S))

        fault = b'{"id":"f1","from":"peer-1","to":"peer-2","kind":"cut","delay_ms":0,"both_ways":false}'
        table = b'{"faults":[%b],"node":"peer-1","names":{"127.0.0.1:2181":"peer-2"}}' % fault
        for _ in range(2):
            assert await ask(table) == {"ok": True}
            assert faults.state("127.0.0.1:2181") == LinkState(outward=CUT)
        bad = (b"not json", b"[]", b'{"faults":[{"id":"f"}]}', table.replace(b"cut", b"snap"), b'{"faults":7}')
        for line in (*bad, table.replace(b'"delay_ms":0', b'"delay_ms":-1')):
            answer = await ask(line)
            assert isinstance(answer, dict)
            assert answer["ok"] is False
            assert faults.state("127.0.0.1:2181") == LinkState(outward=CUT)
        assert await ask(b'{"faults":[],"names":{}}') == {"ok": True}
        assert faults.state("127.0.0.1:2181") == LinkState()
        writer.close()
        await control.close()
        await asyncio.sleep(0)

    asyncio.run(main())


def test_link_faults_follow_nodes_to_their_new_addresses() -> None:
    faults = LinkFaults({"10.0.0.1:5": "peer-2"})
    faults.apply(cut("out", "in"))
    faults.name_nodes({"10.0.0.9:5": "peer-2", "10.0.0.1:5": "peer-4"})
    assert faults.state("10.0.0.9:5") == LinkState(CUT, CUT)
    assert faults.state("10.0.0.1:5") == LinkState()
    faults.apply(cut("out", "in"))
    assert faults.state("10.0.0.9:5") == LinkState(CUT, CUT)


def test_bandwidth_limit_applies_until_the_fault_is_removed() -> None:
    async def scenario(echo: Echo, port: int, faults: LinkFaults) -> None:
        reader, writer = await faults.open_streams("127.0.0.1", port)
        slow = msgspec.structs.replace(one_way("out", "cut"), kind="bandwidth", bytes_per_s=1_000)
        faults.apply(FaultTable([slow], "peer-1"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        writer.write(bytes(200))
        assert await reader.readexactly(200) == bytes(200)
        assert loop.time() - began >= 0.19
        writer.write(bytes(1_000_000))
        faults.apply(FaultTable(node="peer-1"))
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readexactly(1_000_000) == bytes(1_000_000)
        writer.close()

    run(scenario)
