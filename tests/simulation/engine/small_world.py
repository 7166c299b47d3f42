"""Simulated world of a few machines that run short programs, for tests of the event loop and of sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from zabka.simulation.engine.machine import Ground, Machine, SimProcess
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.engine.virtual_time import virtual_time

HERE, THERE = "10.0.0.1", "10.0.0.2"
PORT = 7000

Program = Callable[[], Coroutine[Any, Any, Any]]


class SmallWorld:
    """Machines of one simulated world.

    `ended` contains the result or exception of each program, keyed by the machine's address.
    """

    def __init__(self, *, pieces: float = 0.0) -> None:
        self.ground = Ground(1, Scheduler(), pieces=pieces)
        self.machines: dict[str, Machine] = {}
        self.ended: dict[str, Any] = {}

    def machine(self, address: str, program: Program) -> Machine:
        """Start a machine that runs this program."""

        async def main(_: SimProcess) -> Any:
            return await program()

        def ended(task: asyncio.Task[Any]) -> None:
            self.ended[address] = task.exception() or task.result()

        machine = self.machines[address] = Machine(self.ground, address, address, main, on_exit=ended)
        machine.start()
        return machine

    def run(self, seconds: float) -> None:
        """Advance the virtual time by `seconds`."""
        scheduler = self.ground.scheduler
        with virtual_time(self.ground.turn):
            scheduler.run_until(scheduler.now_us + round(seconds * 1e6))

    def end(self) -> None:
        """Kill all machines and end the world."""
        for machine in self.machines.values():
            machine.kill()
        self.ground.end_world()


class Noted(asyncio.Protocol):
    """Protocol that records what happens on a connection."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.transport: asyncio.Transport | None = None
        self.reads: list[bytes] = []
        self.happened: list[str] = []
        self.lost_with: Exception | None = None
        self._keeps_open = keeps_open

    @property
    def received(self) -> bytes:
        """Return all bytes received on the connection."""
        return b"".join(self.reads)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.happened.append("made")

    def data_received(self, data: bytes) -> None:
        self.reads.append(data)

    def pause_writing(self) -> None:
        self.happened.append("pause")

    def resume_writing(self) -> None:
        self.happened.append("resume")

    def eof_received(self) -> bool:
        self.happened.append("eof")
        return self._keeps_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost_with = exc
        self.happened.append("lost")


def serving(protocol: Noted) -> Program:
    """Return a program that listens on a port and uses this protocol for every connection."""

    async def program() -> None:
        await asyncio.get_running_loop().create_server(lambda: protocol, "", PORT)
        await asyncio.get_running_loop().create_future()

    return program


def calling(protocol: Noted, *words: bytes) -> Program:
    """Return a program that connects to the port of `serving` and sends these byte strings."""

    async def program() -> None:
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: protocol, THERE, PORT)
        for word in words:
            transport.write(word)
        await asyncio.get_running_loop().create_future()

    return program
