"""Machines that run clients of the ensemble: zabka's asyncio client on simulated sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.client_tap import ClientTap
from zabka.ensemble.client.history_clients import ALIVE, HISTORIES, History, Player
from zabka.ensemble.errors import NodeExists, SessionExpired, ZooKeeperError
from zabka.ensemble.ports import Runtime
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.message_log import MessageNotes
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.kafka_tap import KafkaTap
from zabka.simulation.cluster.server_machine import RecordJournal
from zabka.simulation.engine.machine import Ground, Machine, SimProcess
from zabka.simulation.record import Record

SESSION_TIMEOUT_MS = 6_000
PLAYERS_PAUSE_S = 0.12

Program = Callable[[AsyncioRuntime, MessageNotes | None], Awaitable[None]]
"""A client's program.  If the world has a tap, the second argument records the client's messages."""
Work = Callable[[Client, AsyncioRuntime], Awaitable[None]]
"""A program that uses an ensemble client; the client runs until the program returns."""

KafkaProgram = Callable[[AdminClient, Runtime], Coroutine[Any, Any, None]]
"""A program that uses a broker client and its runtime."""
RunKafkaClient = Callable[[str, KafkaProgram], None]
"""Runs a broker client's program on a new machine with that name."""


class ProgramMachine(Machine):
    """A computer that runs a client's program.  Faults can cut its network links but do not kill it."""

    def __init__(self, ground: Ground, name: str, address: str, program: Program) -> None:
        super().__init__(ground, name, address, self._run, on_exit=self._ended)
        self._program = program

    async def _run(self, process: SimProcess) -> None:
        runtime = AsyncioRuntime(asyncio.get_running_loop(), process.random.getrandbits(64), on_failure=self._failed)
        await self._program(runtime, process.messages)

    def _failed(self, name: str, failure: BaseException) -> None:
        self.ground.failures.append(f"{self.name}: {name}: {failure!r}")

    def _ended(self, task: asyncio.Task[Any]) -> None:
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            self.ground.failures.append(f"{self.name}: {failure!r}")


def tapped_connector(messages: MessageNotes | None) -> AsyncioConnector:
    """Return a connector to the ensemble that records its messages if the world has a tap."""
    return AsyncioConnector(tap=None if messages is None else ClientTap(messages))


def tapped_channel(name: str, messages: MessageNotes | None) -> AsyncioChannel:
    """Return a channel to brokers that records its messages if the world has a tap."""
    return AsyncioChannel(name, tap=None if messages is None else KafkaTap(messages))


class ScriptedMachine(ProgramMachine):
    """A machine on which a script starts clients. No other program runs on this machine."""

    def __init__(self, ground: Ground, name: str, address: str) -> None:
        super().__init__(ground, name, address, _until_the_end)

    def connector(self) -> AsyncioConnector:
        """Return the connector for an ensemble client on this machine."""
        return tapped_connector(self._running().messages)

    def channel(self) -> AsyncioChannel:
        """Return the channel for a broker client on this machine."""
        return tapped_channel(self.name, self._running().messages)

    def runtime(self) -> AsyncioRuntime:
        """Return the runtime for a client on this machine."""
        process = self._running()
        return AsyncioRuntime(process.loop, process.random.getrandbits(64), on_failure=self._failed)

    def journal(self, record: Record) -> RecordJournal:
        """Return the journal for the events of a client on this machine."""
        return RecordJournal(record, self.name, self._running().loop)

    def begin(self, work: Coroutine[Any, Any, Any], what: str) -> asyncio.Task[Any]:
        """Start a task on this machine; it first runs after a short delay."""
        return self._running().loop.create_task(work, name=what)

    def _running(self) -> SimProcess:
        self.start()
        assert self.process is not None, "it has just been started"
        return self.process


async def _until_the_end(_: AsyncioRuntime, __: MessageNotes | None) -> None:
    await asyncio.get_running_loop().create_future()


class ClientMachine(ProgramMachine):
    """A machine with a client of the ensemble."""

    def __init__(self, ground: Ground, name: str, address: str, hosts: str, work: Work) -> None:
        async def program(runtime: AsyncioRuntime, messages: MessageNotes | None) -> None:
            client = Client(
                hosts, tapped_connector(messages), runtime, session_timeout_ms=SESSION_TIMEOUT_MS, name=name
            )
            await work(client, runtime)

        super().__init__(ground, name, address, program)


async def forever(_: Client, __: AsyncioRuntime) -> None:
    """Wait forever.  Used as the program of clients that other tasks use."""
    await asyncio.get_running_loop().create_future()


class Playing:
    """Ensemble clients that write, read and watch a few znodes, and record a history.  Set `is_done` to end them."""

    def __init__(self, seed: int) -> None:
        self.history = History()
        self.is_done = False
        self.ended = 0
        self._seed = seed

    def player(self, name: str) -> Work:
        """Return the program for the client with that name."""

        async def play(client: Client, _: AsyncioRuntime) -> None:
            player = Player(name, client, self.history, self._seed, PLAYERS_PAUSE_S)
            await player.play(lambda: self.is_done)
            self.ended += 1

        return play


async def make_ground(client: Client, runtime: AsyncioRuntime) -> None:
    """Create the parent znodes that the clients of `Playing` use."""
    await client.start()
    for path in (HISTORIES, ALIVE):
        while True:
            try:
                await client.create(path, b"")
            except NodeExists:
                break
            except SessionExpired:
                await client.renew()
            except ZooKeeperError:
                await runtime.sleep(100)
            else:
                break
    await client.close()
