"""Runs the stream, an audit and a campaign as child processes of the API, at most one of each kind.

Each child runs `zabka` with a subcommand. It ends when the API ends. The last lines of its output are kept.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from zabka.api.analytics.job_models import KINDS, Job, JobKind, NewJob
from zabka.api.http.problems import Problem
from zabka.api.scenarios.process import child_environment

TAIL_LINES = 40
LINE_MAX = 500
STOP_S = 30.0
"""Maximum time for a stopped job to end: the stream completes its batch first."""
CLOSE_S = 0.5
"""Maximum time for the jobs to end when the API ends.

The host agent kills the API 3 s after SIGTERM, and open event streams take up to 2 s of these.
"""
_CHUNK = 1 << 14

log = structlog.get_logger()


@dataclass
class _Running:
    """A child process, which runs or has ended."""

    process: asyncio.subprocess.Process
    command: str
    started_ms: int
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    ended_ms: int | None = None
    is_stopping: bool = False
    watching: asyncio.Task[None] | None = None
    stopping: asyncio.Task[None] | None = None


class Jobs:
    """The jobs of one API process. `argv` is the `zabka` command line, `data` the cluster's data directory."""

    def __init__(self, argv: Sequence[str], data: Path, own: Path) -> None:
        self._argv = list(argv)
        self._data = data
        self._files = own / "campaign-files"
        self._jobs: dict[JobKind, _Running] = {}
        self._starting = asyncio.Lock()

    def all(self) -> list[Job]:
        """Return the last job of each kind, or an idle one."""
        return [self._view(kind) for kind in KINDS]

    async def start(self, kind: JobKind, new: NewJob) -> Job:
        """Start a job. Raises Problem: 409 if one of this kind runs, 503 if the process cannot be started."""
        async with self._starting:
            if kind in self._jobs and self._jobs[kind].ended_ms is None:
                raise Problem(409, f"a job of the kind {kind} runs already; stop it first")
            arguments = self._arguments(kind, new)
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._argv, *arguments,
                    stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                    env={**child_environment(), "PYTHONUNBUFFERED": "1"},
                    start_new_session=True,
                )  # fmt: skip
            except OSError as reason:
                raise Problem(503, f"the job cannot be started: {reason}") from None
            job = _Running(process, shlex.join(["zabka", *arguments]), _now_ms())
            job.watching = asyncio.create_task(_watch(job))
            self._jobs[kind] = job
        return self._view(kind)

    def stop(self, kind: JobKind) -> Job:
        """Ask the job to end, and kill it after STOP_S. Raises Problem 404 if none of this kind runs."""
        job = self._jobs.get(kind)
        if job is None or job.ended_ms is not None:
            raise Problem(404, f"no job of the kind {kind} runs")
        if job.stopping is None:
            job.is_stopping = True
            job.stopping = asyncio.create_task(_end(job, STOP_S))
        return self._view(kind)

    async def close(self) -> None:
        """End every job."""
        await asyncio.gather(*(_end(job, CLOSE_S) for job in self._jobs.values()))
        for job in self._jobs.values():
            if job.stopping is not None:
                job.stopping.cancel()

    def _arguments(self, kind: JobKind, new: NewJob) -> list[str]:
        if kind == "stream":
            return ["pipeline", "stream", "--follow", "--data", str(self._data)]
        if kind == "audit":
            return ["pipeline", "audit", str(self._data)]
        if new.name is None or new.definition is None:
            raise Problem(422, "a campaign needs a name and a definition")
        self._files.mkdir(parents=True, exist_ok=True)
        file = self._files / f"{new.name}.toml"
        file.write_text(new.definition)
        # Half of the processors are left to the cluster.
        processes = max(1, (os.cpu_count() or 1) // 2)
        return ["campaign", "run", str(file), "--jobs", str(processes), "--data", str(self._data)]

    def _view(self, kind: JobKind) -> Job:
        job = self._jobs.get(kind)
        if job is None:
            return Job(
                kind=kind, state="idle", command=None, started_ms=None, ended_ms=None, exit_code=None, stopped=False,
                tail=[],
            )  # fmt: skip
        return Job(
            kind=kind,
            state="ended" if job.ended_ms is not None else "stopping" if job.is_stopping else "running",
            command=job.command,
            started_ms=job.started_ms,
            ended_ms=job.ended_ms,
            exit_code=None if job.ended_ms is None else job.process.returncode,
            stopped=job.is_stopping,
            tail=list(job.tail),
        )


async def _watch(job: _Running) -> None:
    """Read the output until the process has ended."""
    stream = job.process.stdout
    assert stream is not None
    line = b""
    while chunk := await stream.read(_CHUNK):
        *complete, line = (line + chunk).split(b"\n")
        for each in complete:
            _keep(job, each)
        # A line without an end must not fill the memory.
        line = line[-_CHUNK:]
    _keep(job, line)
    await job.process.wait()
    job.ended_ms = _now_ms()


def _keep(job: _Running, line: bytes) -> None:
    text = line.decode(errors="replace").rsplit("\r", 1)[-1].rstrip()
    if text:
        job.tail.append(text[:LINE_MAX])


async def _end(job: _Running, within_s: float) -> None:
    """Send SIGTERM to the process, and SIGKILL to it and its children if it does not end in time."""
    assert job.watching is not None
    if job.ended_ms is not None:
        return
    with suppress(ProcessLookupError):
        job.process.terminate()
    await asyncio.wait({job.watching}, timeout=within_s)
    if not job.watching.done():
        log.warning("a job did not end in time and is killed", command=job.command)
        with suppress(ProcessLookupError):
            os.killpg(job.process.pid, signal.SIGKILL)
        await job.watching


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
