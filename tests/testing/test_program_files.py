"""Files that a program of a simulated world opens with aiofiles: they are on a disk that can lose power."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiofiles
import aiofiles.os
import aiofiles.tempfile
import pytest

from zabka.simulation.engine.refusal import NotSimulated
from zabka.testing import SimulatedWorld
from zabka.testing.worlds.seed_test import Parameters, run_seed

SEEDS = range(12)
Program = Callable[[SimulatedWorld], Awaitable[None]]


def passes(body: Program, seed: int = 0) -> None:
    parameters = Parameters(seeds=1, peers=1, brokers=0, faults=None, faults_s=20.0, limit_s=600.0, settings={})
    failure = run_seed(parameters, body, seed).failure
    if failure is not None:
        raise failure


async def write(name: str, text: str, *, syncs: bool) -> None:
    async with aiofiles.open(name, "w") as file:
        await file.write(text)
        await file.flush()
        if syncs:
            await asyncio.to_thread(os.fsync, file.fileno())


async def read(name: str) -> str | None:
    try:
        async with aiofiles.open(name) as file:
            return await file.read()
    except FileNotFoundError:
        return None


def sync_directory(name: str = "/") -> None:
    descriptor = os.open(name, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def after_power_loss(program: Callable[[], Awaitable[None]], name: str, seed: int) -> str | None:
    """Return the content of a file (None if it does not exist) after a program has ended and its machine lost power."""
    found: list[str | None] = []

    async def lose(world: SimulatedWorld) -> None:
        is_first = True

        async def run(_: str) -> None:
            nonlocal is_first
            if is_first:
                is_first = False
                await program()
                await asyncio.sleep(3_600)
            found.append(await read(name))

        service = world.start("keeper", run)
        await asyncio.sleep(1)
        service.power_loss()
        service.start()
        await world.until(lambda: found)

    passes(lose, seed)
    return found[0]


def test_power_loss_loses_what_aiofiles_wrote_without_a_sync() -> None:
    async def careless() -> None:
        await write("orders", "old", syncs=True)
        sync_directory()
        await write("orders", "new", syncs=False)

    async def careful() -> None:
        await write("orders", "old", syncs=True)
        sync_directory()
        await write("orders", "new", syncs=True)

    outcomes = {after_power_loss(careless, "orders", seed) for seed in SEEDS}
    # The size and the block are lost or kept independently of each other.
    assert outcomes - {"new"} and outcomes <= {"old", "new", "", "\0\0\0"}
    assert {after_power_loss(careful, "orders", seed) for seed in SEEDS} == {"new"}


def test_power_loss_undoes_a_rename_whose_directory_was_not_synced() -> None:
    async def careless() -> None:
        await write("orders", "old", syncs=True)
        sync_directory()
        await write("orders.new", "new", syncs=True)
        await aiofiles.os.rename("orders.new", "orders")

    async def careful() -> None:
        await careless()
        sync_directory()

    assert {after_power_loss(careless, "orders", seed) for seed in SEEDS} == {"old", "new"}
    assert {after_power_loss(careful, "orders", seed) for seed in SEEDS} == {"new"}


def test_kill_loses_only_what_is_in_the_buffer_of_aiofiles() -> None:
    async def lose(world: SimulatedWorld) -> None:
        found: list[str | None] = []

        async def keeper(_: str) -> None:
            if await aiofiles.os.path.exists("orders"):
                found.append(await read("orders"))
                return
            async with aiofiles.open("orders", "w") as file:
                await file.write("written")
                await file.flush()
                await file.write(" and buffered")
                await asyncio.sleep(3_600)

        service = world.start("keeper", keeper)
        await asyncio.sleep(1)
        service.kill()
        service.start()
        await world.until(lambda: found)
        assert found == ["written"]
        assert world.path("orders", machine="keeper").read_text() == "written"

    passes(lose)


def test_aiofiles_of_a_program_never_touches_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host").write_text("of the host")

    async def use(world: SimulatedWorld) -> None:
        assert await read("host") is None
        await aiofiles.os.makedirs("a/b", exist_ok=True)
        await aiofiles.os.makedirs("/a/b", exist_ok=True)
        with pytest.raises(FileExistsError):
            await aiofiles.os.makedirs("a/b")
        await write("a/b/c", "line\nline\n", syncs=False)
        assert await aiofiles.os.path.isfile("a/b/c") and await aiofiles.os.path.isdir("a/../a/b")
        assert not await aiofiles.os.path.isdir("a/b/c") and not await aiofiles.os.path.exists("a/b/c/d")
        assert await aiofiles.os.path.getsize("a/b/c") == (await aiofiles.os.stat("a/b/c")).st_size == 10
        assert await aiofiles.os.listdir("a/b") == ["c"]
        with pytest.raises(OSError, match="not empty"):
            await aiofiles.os.rmdir("a/b")
        await aiofiles.os.remove("a/b/c")
        await aiofiles.os.removedirs("a/b")
        assert not await aiofiles.os.path.exists("a")
        assert world.path("a").exists() is False

    passes(use)
    assert [path.name for path in tmp_path.iterdir()] == ["host"]


def test_aiofiles_supports_the_modes_of_the_built_in_open() -> None:
    async def use(world: SimulatedWorld) -> None:
        async with aiofiles.open(world.path("log"), "x") as new:
            await new.write("a\n")
        with pytest.raises(FileExistsError):
            await aiofiles.open("log", "x")
        async with aiofiles.open("log", "ab", buffering=0) as log:
            await log.write(b"b\n")
            assert await read("log") == "a\nb\n"
        async with aiofiles.open("log", "r+") as both:
            assert [line async for line in both] == ["a\n", "b\n"]
            await both.seek(0)
            await both.truncate(2)
        async with aiofiles.open("log", "rb") as binary:
            assert await binary.read() == b"a\n"
        async with aiofiles.open("log", "a", buffering=1) as lines:
            await lines.write("c\n")
            assert await read("log") == "a\nc\n"
        with pytest.raises(ValueError, match="mode"):
            await aiofiles.open("log", "rw")

    passes(use)


@pytest.mark.parametrize("call", ["scandir", "statvfs"])
def test_unsupported_call_of_aiofiles_is_refused_with_its_line(call: str) -> None:
    async def use(_: SimulatedWorld) -> None:
        with pytest.raises(NotSimulated, match=rf"{call} of aiofiles at {__file__}:\d+ does not work"):
            await getattr(aiofiles.os, call)("/")

    passes(use)


def test_temporary_file_of_aiofiles_is_refused() -> None:
    async def use(_: SimulatedWorld) -> None:
        with pytest.raises(NotSimulated, match="TemporaryFile of aiofiles"):
            async with aiofiles.tempfile.TemporaryFile():
                pass

    passes(use)


def test_os_open_still_opens_files_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "host").write_text("of the host")

    async def use(_: SimulatedWorld) -> None:
        descriptor = os.open(tmp_path / "host", os.O_RDONLY)
        assert os.read(descriptor, 100) == b"of the host"
        os.fsync(descriptor)
        os.close(descriptor)
        with pytest.raises(OSError):
            os.fsync(descriptor)

    passes(use)
