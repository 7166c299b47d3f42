"""Runs scenarios of the outage library, seeds and what-ifs in a child process: they take seconds of CPU time.

The child runs `zabka scenarios`, `zabka replay` or `zabka what-if`, and ends when this process ends. If it has injected
faults into this cluster, it first restores the cluster.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

PATIENCE_S = 120.0
PUT_RIGHT_S = 40.0
"""Maximum time for a terminated scenario process to heal the faults that it injected into this cluster."""
STOP_S = 2.0
"""Maximum time for the scenario process to end when the API ends. It is short, because the API must end soon."""
_HELD, _VIOLATED = 0, 1
_INTERRUPTED = (-signal.SIGTERM, -signal.SIGINT, 130)
"""Exit codes of a process that was terminated and had nothing to restore."""
_CHUNK_BYTES = 1 << 16
_OPTIONS = "ZABKA_"
"""Prefix of the environment variables that are defaults of the options of `zabka`."""

log = structlog.get_logger()


class PlayerFailed(Exception):
    """The scenario process returned no result. The message is the reason, in one line."""


def child_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a child process that runs `zabka` and ends with this process.

    It has none of the ZABKA_ variables with which the cluster was started: they would set options of the child's
    command.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith(_OPTIONS)}
    return {**kept, "ZABKA_PARENT": str(os.getpid())}


@dataclass
class Watch:
    """The input of a process, a function that takes the lines of its progress, and an event that stops it."""

    feed: bytes = b""
    is_progress: Callable[[bytes], bool] | None = None
    """Returns whether a line of the output is progress, which is not part of the result."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)


class ScenarioProcess:
    """Runs the command `argv` with a subcommand and its arguments, in a new process for each call."""

    def __init__(self, argv: Sequence[str], *, put_right_s: float = PUT_RIGHT_S) -> None:
        self._argv = list(argv)
        self._put_right_s = put_right_s

    async def ask(self, *arguments: str, patience_s: float = PATIENCE_S, watch: Watch | None = None) -> bytes:
        """Run the process and return its output. Raises PlayerFailed if it fails or takes longer than `patience_s`.

        The process is terminated if it takes too long, if `watch` stops it, or if the caller is cancelled. A process
        that is terminated for one of the first two reasons can still report what it could not restore.
        """
        watch = watch or Watch()
        process = await self._started(arguments, takes_input=bool(watch.feed))
        answering = asyncio.create_task(_output(process, watch))
        stopping = asyncio.create_task(watch.stopped.wait())
        try:
            ended, _ = await asyncio.wait(
                {answering, stopping}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
            )
            killed = answering not in ended and await _end(process, answering, self._put_right_s)
            answer, complaint = await answering
        finally:
            if process.returncode is None:
                await _end(process, answering, STOP_S)
            answering.cancel()
            stopping.cancel()
        if killed:
            raise PlayerFailed(f"it did not restore the cluster within {self._put_right_s:g} s, and was killed")
        if answering not in ended and process.returncode in _INTERRUPTED:
            raise PlayerFailed("it was stopped" if ended else f"it did not end within {patience_s:.0f} s")
        if process.returncode not in (_HELD, _VIOLATED) or not answer:
            printed = complaint.decode(errors="replace").strip()
            log.error("scenario player failed", arguments=arguments, code=process.returncode, stderr=printed)
            last = printed.splitlines()[-1] if printed else "it printed nothing"
            raise PlayerFailed(f"the player exited with code {process.returncode}: {last}")
        return answer

    async def follow(self, *arguments: str, feed: bytes, patience_s: float) -> AsyncIterator[bytes]:
        """Run the process with `feed` as its input, and yield each line of its output as it comes.

        Raises PlayerFailed if it fails or takes longer than `patience_s`. The process ends with this iterator.
        """
        process = await self._started(arguments, takes_input=True)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        complaint = asyncio.create_task(process.stderr.read())
        try:
            async with asyncio.timeout(patience_s):
                process.stdin.write(feed)
                process.stdin.close()
                async for line in process.stdout:
                    yield line
                await process.wait()
        except TimeoutError:
            raise PlayerFailed(f"it did not end within {patience_s:.0f} s") from None
        finally:
            if process.returncode is None:
                await _end(process, complaint, STOP_S)
            printed = (await complaint).decode(errors="replace").strip()
        if process.returncode != _HELD:
            log.error("what-if failed", arguments=arguments, code=process.returncode, stderr=printed)
            raise PlayerFailed(printed.splitlines()[-1] if printed else f"it exited with code {process.returncode}")

    async def _started(self, arguments: Sequence[str], *, takes_input: bool = False) -> asyncio.subprocess.Process:
        """Start the process. Raises PlayerFailed.

        If the caller is cancelled while the process starts, the process is terminated like a running one, so that it
        can heal its faults. asyncio itself would kill it.
        """
        starting = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *self._argv, *arguments,
                stdin=asyncio.subprocess.PIPE if takes_input else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env=child_environment(),
            )
        )  # fmt: skip
        try:
            return await asyncio.shield(starting)
        except OSError as reason:
            raise PlayerFailed(f"the player cannot be started: {reason}") from None
        except asyncio.CancelledError:
            with suppress(OSError):
                process = await starting
                await _end(process, asyncio.create_task(process.communicate()), STOP_S)
            raise


async def _output(process: asyncio.subprocess.Process, watch: Watch) -> tuple[bytes, bytes]:
    """Send the process its input, and return its output, without the lines that are progress, and its error output."""
    assert process.stdout is not None and process.stderr is not None
    complaint = asyncio.create_task(process.stderr.read())
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.write(watch.feed)
            await process.stdin.drain()
        process.stdin.close()
    lines: list[bytes] = []
    rest = b""
    while chunk := await process.stdout.read(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if watch.is_progress is None or not watch.is_progress(line):
                lines.append(line + b"\n")
    await process.wait()
    return b"".join(lines) + rest, await complaint


async def _end(process: asyncio.subprocess.Process, answering: asyncio.Task[Any], within_s: float) -> bool:
    """Send SIGTERM to the process, and SIGKILL if it does not end in time. Return whether SIGKILL was necessary.

    Meanwhile the `answering` task reads the output, because the process would block on a full pipe.
    """
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait({answering}, timeout=within_s)
    finally:
        killed = process.returncode is None
        if killed:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return killed
