"""Processor time, wake-ups and memory of an idle cluster: `make idle`.

The cluster consists of 3 peers, 3 brokers, the host agent and the API, as `zabka up` starts them. No client is
connected, and no dashboard is open. After the cluster has settled, the benchmark measures processor time (which a busy
machine hardly changes), wake-ups (voluntary context switches) and memory (PSS, which divides each shared page among the
processes that share it). It fails if a limit is exceeded.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bench.results import Figure, Measurement
from bench.run import Json, Quick, Run, bench_run
from bench.servers import cpu_s, descendants, number_in
from zabka.compose.files import load_run

CPU_PERCENT_MAX = 3.0
"""Limit for the processor time of the idle cluster, in percent of one core."""
PSS_MIB_MAX = 250.0
FIGURES = (
    Figure("cpu_percent", "% of a core", ".2f", ""),
    Figure("wakes_per_s", "wakes/s", ",.1f", ""),
    Figure("pss_mib", "PSS MiB", ",.1f", ""),
)


def usage(pid: int) -> tuple[float, int, float]:
    """Return a process's CPU seconds and wakes since it started, and its memory in MiB.

    Raises OSError if the process has ended.
    """
    place = Path(f"/proc/{pid}")
    wakes = sum(number_in(task / "status", "voluntary_ctxt_switches:") for task in (place / "task").iterdir())
    return cpu_s(pid), wakes, number_in(place / "smaps_rollup", "Pss:") / 1024


def name_of(pid: int) -> str:
    """Return the name of the node that a process runs.

    The last argument of the process is a file in the node's folder.
    """
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    return Path(arguments[-1]).parent.name


@contextmanager
def cluster(data: Path) -> Iterator[int]:
    """Start a cluster on free ports and yield the process id of its agent."""
    command = (sys.executable, "-m", "zabka.cli.main")
    ports = ("--port", "0", "--zk-port", "0", "--kafka-port", "0")
    subprocess.run([*command, "up", "--detach", "--data", data, *ports], check=True, stdout=subprocess.DEVNULL)
    try:
        run = load_run(data)
        assert run is not None
        yield run.agent_pid
    finally:
        subprocess.run([*command, "down", "--data", data], check=True, stdout=subprocess.DEVNULL)


def measure(run: Run, pids: list[int], seconds: float) -> None:
    """Measure CPU time, wake-ups and memory of each process, and of all processes together."""
    before, begin = [usage(pid) for pid in pids], time.monotonic()
    time.sleep(seconds)
    after, took_s = [usage(pid) for pid in pids], time.monotonic() - begin
    rows: dict[str, dict[str, float]] = {}
    for pid, old, new in zip(pids, before, after, strict=True):
        values = ((new[0] - old[0]) / took_s * 100, (new[1] - old[1]) / took_s, new[2])
        rows[name_of(pid)] = {figure.key: value for figure, value in zip(FIGURES, values, strict=True)}
    together = {figure.key: sum(row[figure.key] for row in rows.values()) for figure in FIGURES}
    problems = [f"more than {CPU_PERCENT_MAX:g} % of a core"] if together["cpu_percent"] > CPU_PERCENT_MAX else []
    problems += [f"more than {PSS_MIB_MAX:g} MiB"] if together["pss_mib"] > PSS_MIB_MAX else []
    for name, figures in rows.items():
        run.add(Measurement(name, "ours", figures))
    run.add(Measurement("together", "ours", together, problems))


def main(
    seconds: Annotated[float, typer.Option(help="How long to measure")] = 60.0,
    settle: Annotated[float, typer.Option(help="How long to wait before")] = 30.0,
    quick: Quick = False,
    as_json: Json = False,
) -> None:
    """Measure processor time, wakes and memory of an idle cluster."""
    if quick:
        seconds = settle = 10.0
    with bench_run("idle", as_json) as run:
        run.compare("Idle cluster of 3 peers and 3 brokers", FIGURES)
        with cluster(run.directory) as agent:
            time.sleep(settle)
            measure(run, descendants(agent), seconds)
