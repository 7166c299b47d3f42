"""`make idle`: what a cluster takes that nobody uses and nobody looks at.  Linux (`/proc`).

3 peers, 3 brokers, the host agent and the API as `zabka up` starts them, the dashboard open nowhere.  After a while to
settle, the processor time of all its processes over a minute, which a busy machine makes but little longer, and their
memory: each its own, and of what they share its part (PSS).  Exit code 1 above the bars.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from bench.usage import PROC, cpu_s, descendants
from bench.verdict import end_with
from zabka.compose.files import load_run

CPU_MAX = 0.03
"""Of one core."""
PSS_MIB_MAX = 250.0


class Taken(NamedTuple):
    """What a process has taken since its start, and what it holds.  Wakes are its voluntary context switches."""

    name: str
    cpu_s: float
    wakes: int
    pss_kib: int


def taken(pid: int) -> Taken:
    """Of a process that runs.  Raises OSError where it does not."""
    place = PROC / str(pid)
    arguments = (place / "cmdline").read_bytes().decode().rstrip("\0").split("\0")
    return Taken(
        Path(arguments[-1]).parent.name,
        cpu_s(pid),
        sum(_number(task / "status", "voluntary_ctxt_switches:") for task in (place / "task").iterdir()),
        _number(place / "smaps_rollup", "Pss:"),
    )


def _number(file: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(name))


@contextmanager
def _cluster(data: Path) -> Iterator[int]:
    """A cluster on free ports; its agent's process id."""
    command = (sys.executable, "-m", "zabka.cli.main")
    where = ("--data", str(data))
    ports = ("--port", "0", "--zk-port", "0", "--kafka-port", "0")
    subprocess.run([*command, "up", "--detach", *where, *ports], check=True, stdout=subprocess.DEVNULL)
    try:
        run = load_run(data)
        assert run is not None
        yield run.agent_pid
    finally:
        subprocess.run([*command, "down", *where], check=True, stdout=subprocess.DEVNULL)


def main(
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 60.0,
    settle: Annotated[float, typer.Option(help="How long to wait before that.")] = 30.0,
) -> None:
    """Measure a cluster that nobody uses."""
    with tempfile.TemporaryDirectory(prefix="zabka-idle-") as directory, _cluster(Path(directory)) as agent:
        time.sleep(settle)
        pids = descendants(agent)
        before, began_s = [taken(pid) for pid in pids], time.monotonic()
        time.sleep(seconds)
        after, lasted_s = [taken(pid) for pid in pids], time.monotonic() - began_s
    for old, new in zip(before, after, strict=True):
        typer.echo(_line(new.name, new.cpu_s - old.cpu_s, new.wakes - old.wakes, new.pss_kib, lasted_s))
    used_s = sum(new.cpu_s for new in after) - sum(old.cpu_s for old in before)
    wakes = sum(new.wakes for new in after) - sum(old.wakes for old in before)
    pss_kib = sum(new.pss_kib for new in after)
    typer.echo(_line("together", used_s, wakes, pss_kib, lasted_s))
    typer.echo(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    wrong = [f"more than {CPU_MAX:.0%} of a core"] if used_s / lasted_s > CPU_MAX else []
    wrong += [f"more than {PSS_MIB_MAX:.0f} MiB"] if pss_kib / 1024 > PSS_MIB_MAX else []
    end_with(wrong)


def _line(name: str, used_s: float, wakes: int, pss_kib: int, lasted_s: float) -> str:
    return f"{name:10} {used_s / lasted_s:6.2%} of a core {wakes / lasted_s:6.1f} wakes/s {pss_kib / 1024:7.1f} MiB"


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(main)

if __name__ == "__main__":
    app()
