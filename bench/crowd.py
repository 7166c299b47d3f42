"""`make crowd`: tens of thousands of sessions and hundreds of thousands of watches on one ensemble of three.

Reports memory per session and per watch, whether heartbeats hold, and what other clients feel while the deletion of one
znode fires ten thousand watches.  `--side zookeeper` measures Apache ZooKeeper the same way.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from bench.ensembles import SERVERS, Ensemble, Side, running

SESSION_TIMEOUT_MS = 40_000
PING_EVERY_S = 10.0
OPENED_AT_ONCE = 200
WORKERS = 2
"""Processes that hold the sessions: one process may not open enough files for all."""
HOT = "/hot"
_FRAME = struct.Struct(">i")
_CONNECT = struct.Struct(">iiqiqi16s?")
_HEADER = struct.Struct(">iqi")
_PING = struct.pack(">iii", 8, -2, 11)
_EXISTS, _CREATE, _DELETE, _SET, _GET = 3, 1, 2, 5, 4
_NO_NODE = -101


def _string(text: str) -> bytes:
    raw = text.encode()
    return _FRAME.pack(len(raw)) + raw


def _request(xid: int, op: int, body: bytes) -> bytes:
    return struct.pack(">iii", 8 + len(body), xid, op) + body


def _create(path: str) -> bytes:
    return _string(path) + _FRAME.pack(0) + struct.pack(">ii", 1, 31) + _string("world") + _string("anyone") + bytes(4)


class Session(asyncio.Protocol):
    """One session in bytes: it answers nothing by itself, and counts what it is told."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.established: asyncio.Future[bool] = loop.create_future()
        self.alive = True
        self.events = 0
        self._answers: dict[int, asyncio.Future[int]] = {}
        self._xid = 0
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(_CONNECT.pack(_CONNECT.size - 4, 0, 0, SESSION_TIMEOUT_MS, 0, 16, bytes(16), False))

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        if not self.established.done():
            self.established.set_result(False)
        for answer in self._answers.values():
            answer.cancel()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            end = 4 + _FRAME.unpack_from(buffer)[0]
            if len(buffer) < end:
                return
            if not self.established.done():
                self.established.set_result(_FRAME.unpack_from(buffer, 8)[0] > 0)
            else:
                self._take(*_HEADER.unpack_from(buffer, 4))
            del buffer[:end]

    def _take(self, xid: int, _: int, error: int) -> None:
        if xid == -1:
            self.events += 1
        elif xid > 0:
            self._answers.pop(xid).set_result(error)

    def ping(self) -> None:
        """Say that the session lives."""
        if self.alive and self._transport is not None:
            self._transport.write(_PING)

    async def close(self) -> None:
        """Drop the connection; the session ends by its timeout."""
        if self._transport is not None:
            self._transport.abort()
            await asyncio.sleep(0)

    def ask(self, op: int, body: bytes) -> asyncio.Future[int]:
        """Send a request; its error code."""
        assert self._transport is not None
        self._xid += 1
        answer = self._answers[self._xid] = asyncio.get_running_loop().create_future()
        self._transport.write(_request(self._xid, op, body))
        return answer


async def connect(host: str) -> Session:
    """An established session; it ends with its process, or by `close`."""
    address, port = host.split(":")
    _, session = await asyncio.get_running_loop().create_connection(Session, address, int(port))
    if not await session.established:
        raise ConnectionError(f"{host} refused a session")
    return session


# ---- a process that holds sessions -----------------------------------------------------------------------------------


class Crowd:
    """The sessions of one worker, and what it can be told to do with them."""

    def __init__(self, hosts: list[str]) -> None:
        self._hosts = hosts
        self._sessions: list[Session] = []

    async def open(self, count: int) -> int:
        """Open sessions, spread over the hosts."""
        for first in range(0, count, OPENED_AT_ONCE):
            numbers = range(first, min(first + OPENED_AT_ONCE, count))
            self._sessions += await asyncio.gather(*(connect(self._hosts[n % len(self._hosts)]) for n in numbers))
        return len(self._sessions)

    async def watch(self, each: int, hot: int) -> int:
        """Leave so many watches in each session, all on different znodes that do not exist; and `hot` of the sessions
        watch the hot one instead of one of these."""
        left = 0
        for first in range(0, len(self._sessions), OPENED_AT_ONCE):
            asked = []
            for number in range(first, min(first + OPENED_AT_ONCE, len(self._sessions))):
                paths = [f"/watched/{number}-{i}" for i in range(each)]
                if number < hot:
                    paths[0] = HOT
                asked += [self._sessions[number].ask(_EXISTS, _string(path) + b"\x01") for path in paths]
            left += sum(error in (0, _NO_NODE) for error in await asyncio.gather(*asked))
        return left

    async def events(self, expected: int) -> int:
        """How many watches fired, once all expected have (or a minute has passed)."""
        for _ in range(12_000):
            seen = sum(session.events for session in self._sessions)
            if seen >= expected:
                break
            await asyncio.sleep(0.005)
        return seen

    async def alive(self) -> int:
        """How many sessions still have their connection."""
        return sum(session.alive for session in self._sessions)

    async def ping(self) -> None:
        """Heartbeats, spread over the interval, for ever."""
        slices = 100
        while True:
            for part in range(slices):
                for session in self._sessions[part::slices]:
                    session.ping()
                await asyncio.sleep(PING_EVERY_S / slices)


async def _serve(hosts: list[str], pipe: Connection) -> None:
    crowd = Crowd(hosts)
    heart = asyncio.create_task(crowd.ping())
    loop = asyncio.get_running_loop()
    while (order := await loop.run_in_executor(None, pipe.recv)) is not None:
        name, *arguments = order
        pipe.send(await getattr(crowd, name)(*arguments))
    heart.cancel()


def _work(hosts: list[str], pipe: Connection) -> None:
    asyncio.run(_serve(hosts, pipe))


class Workers:
    """The processes that hold the crowd."""

    def __init__(self, hosts: list[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for _ in range(WORKERS):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(hosts, theirs))
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def tell(self, name: str, *arguments: int) -> None:
        """Begin something in all of them."""
        for pipe in self._pipes:
            pipe.send((name, *arguments))

    def sum(self) -> int:
        """What all of them answer, together."""
        return sum(pipe.recv() for pipe in self._pipes)

    def all(self, name: str, *arguments: int) -> int:
        """Begin it, and wait for the sum."""
        self.tell(name, *arguments)
        return self.sum()

    def close(self) -> None:
        """End them."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
            process.close()
        for pipe in self._pipes:
            pipe.close()


# ---- what others feel ------------------------------------------------------------------------------------------------


class Felt(NamedTuple):
    """What one client with one request in flight feels, in milliseconds."""

    p50_ms: float
    p99_ms: float
    worst_ms: float


async def _feel(hosts: list[str], seconds: float) -> list[float]:
    """Latencies of sets and gets, by turns, on each host, one in flight each."""

    async def one(host: str) -> list[float]:
        session = await connect(host)
        path = f"/felt-{host.split(':')[1]}"
        await session.ask(_CREATE, _create(path))
        write, read = _string(path) + _FRAME.pack(1) + b"x" + _FRAME.pack(-1), _string(path) + b"\x00"
        found: list[float] = []
        ends = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ends:
            await session.ask(*((_SET, write) if len(found) % 2 else (_GET, read)))
            found.append((time.perf_counter() - began) * 1000)
        await session.close()
        return found

    return [ms for found in await asyncio.gather(*map(one, hosts)) for ms in found]


def _summary(latencies_ms: list[float]) -> Felt:
    ordered = sorted(latencies_ms)
    return Felt(ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1])


async def _delete_under(hosts: list[str], workers: Workers, hot: int, felt_s: float) -> tuple[Felt, float, int]:
    """Delete the hot znode while others work: what they feel, seconds until all heard of it, and how many did."""
    session = await connect(hosts[0])
    felt = asyncio.create_task(_feel(hosts, felt_s))
    await asyncio.sleep(felt_s / 4)
    workers.tell("events", hot // WORKERS)
    began = time.perf_counter()
    await session.ask(_DELETE, _string(HOT) + _FRAME.pack(-1))
    heard = await asyncio.to_thread(workers.sum)
    took_s = time.perf_counter() - began
    await session.close()
    return _summary(await felt), took_s, heard


# ---- the measurement -------------------------------------------------------------------------------------------------


@contextmanager
def _crowd(hosts: list[str]) -> Iterator[Workers]:
    workers = Workers(hosts)
    try:
        yield workers
    finally:
        workers.close()


async def _prepare(hosts: list[str]) -> None:
    session = await connect(hosts[0])
    for path in ("/watched", HOT):
        await session.ask(_CREATE, _create(path))
    await session.close()


def measure(ensemble: Ensemble, sessions: int, watches: int, hot: int, heartbeats_s: float, felt_s: float) -> None:
    """Measure one ensemble, telling as it goes."""
    hosts = ensemble.hosts
    asyncio.run(_prepare(hosts))
    quiet = _summary(asyncio.run(_feel(hosts, felt_s)))
    typer.echo(f"others, nobody else there:      {_told(quiet)}")
    with _crowd(hosts) as workers:
        empty_mb, began = ensemble.rss_mb(), time.monotonic()
        opened = workers.all("open", sessions // WORKERS)
        took_s, full_mb = time.monotonic() - began, ensemble.rss_mb()
        per_session = (full_mb - empty_mb) * 1e6 / opened
        typer.echo(f"{opened} sessions in {took_s:.1f} s: {per_session:.0f} bytes each over {SERVERS} servers")
        left = workers.all("watch", watches // sessions, hot // WORKERS)
        per_watch = (ensemble.rss_mb() - full_mb) * 1e6 / left
        typer.echo(f"{left} watches: {per_watch:.0f} bytes each")
        time.sleep(heartbeats_s)
        alive = workers.all("alive")
        typer.echo(f"after {heartbeats_s:.0f} s of heartbeats {alive} of {opened} sessions live")
        typer.echo(f"others, beside the crowd:       {_told(_summary(asyncio.run(_feel(hosts, felt_s))))}")
        felt, took_s, heard = asyncio.run(_delete_under(hosts, workers, hot, felt_s))
        typer.echo(f"others, while watches fire:     {_told(felt)}")
        typer.echo(f"one delete fired {heard} watches; the last was heard {took_s * 1000:.0f} ms later")


def _told(felt: Felt) -> str:
    return f"p50 {felt.p50_ms:6.2f} ms, p99 {felt.p99_ms:6.2f} ms, worst {felt.worst_ms:6.1f} ms"


def main(
    side: Annotated[str, typer.Option(help="ours or zookeeper")] = "ours",
    sessions: Annotated[int, typer.Option(help="Open sessions.")] = 20_000,
    watches: Annotated[int, typer.Option(help="Watches in all.")] = 200_000,
    hot: Annotated[int, typer.Option(help="Sessions that watch one znode.")] = 10_000,
    heartbeats_s: Annotated[float, typer.Option(help="How long the sessions are kept by heartbeats alone.")] = 60.0,
    felt_s: Annotated[float, typer.Option(help="How long other clients are asked what they feel.")] = 4.0,
) -> None:
    """Measure a crowd on one side."""
    chosen: Side = "zookeeper" if side == "zookeeper" else "ours"
    with (
        tempfile.TemporaryDirectory(prefix="zabka-crowd-") as directory,
        running(chosen, Path(directory) / side) as ensemble,
    ):
        measure(ensemble, sessions, watches, hot, heartbeats_s, felt_s)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(main)

if __name__ == "__main__":
    app()
