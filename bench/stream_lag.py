"""How far the tables trail the journals: `python -m bench.stream_lag --rate 500 --seconds 60`.

Lines of simulated runs are appended to journals at a rate, with the moment of their writing as their time, and a stream
(`zabka pipeline stream --follow`, niced as `zabka up --pipeline` starts it) makes tables of them.  Lag is told of every
row: from the writing of its event to the first look, ten a second, that finds it in the current version.  CPU seconds
are those of the stream with Java and Python's workers, per second of the measured time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import msgspec
import pyarrow.parquet as pq
import typer

from bench.pipeline import cpu_s
from zabka.pipeline import versions
from zabka.simulation.run import run_with_journal

MOMENTS = {"partition_leaderships": "from_us", "isr_changes": "at_us", "faults": "from_us"}
"""Tables whose rows tell when their event was written, and the column that does."""
LOOK_S = 0.1
TICK_S = 0.05


def histories(count: int) -> list[list[dict[str, Any]]]:
    """So many lines, or some more, of simulated runs: a list for each."""
    found: list[list[dict[str, Any]]] = []
    while sum(map(len, found)) < count:
        told = b"".join(run_with_journal(len(found) + 1, "chaos")[1])
        found.append([msgspec.json.decode(line) for line in told.splitlines()])
    return found


def write(directory: Path, runs: list[list[dict[str, Any]]], rate: float, ended: Event) -> None:
    """Append so many lines a second, one run after the other, until it is ended."""
    begin, written = time.monotonic(), 0
    for number, run in enumerate(runs):
        with (directory / f"run-{number}.jsonl").open("ab") as file:
            for entry in run:
                while written >= (time.monotonic() - begin) * rate:
                    file.flush()
                    if ended.wait(TICK_S):
                        return
                entry["wall_us"] = entry["mono_us"] = time.time_ns() // 1000
                file.write(msgspec.json.encode(entry) + b"\n")
                written += 1


def lags_s(lake: Path, seen: set[tuple[str, int]]) -> list[float]:
    """Of every row that was not seen before: how long ago its event was written."""
    found = []
    for table, column in MOMENTS.items():
        if (lake / table).is_dir():
            moments = pq.read_table(lake / table, columns=["run", column])
            now_us = time.time_ns() // 1000
            for run, at_us in zip(*(moments[name].to_pylist() for name in ("run", column)), strict=True):
                if at_us is not None and (f"{table} {run}", at_us) not in seen:
                    seen.add((f"{table} {run}", at_us))
                    found.append((now_us - at_us) / 1e6)
    return found


def measured(lake: Path, warm_up_s: float, seconds: float) -> None:
    """Look at the lake for so long, and say what was seen after warming up."""
    seen: set[tuple[str, int]] = set()
    found: list[float] = []
    version, begin = 0, time.monotonic()
    cpu = own = 0.0
    made = -1
    while (passed := time.monotonic() - begin) < warm_up_s + seconds:
        if versions.current(lake) != version:
            version = versions.current(lake)
            new = lags_s(lake, seen)
            if made >= 0:
                found += new
                made += 1
        if passed > warm_up_s and made < 0:
            made, cpu, own = 0, cpu_s(), time.process_time()
        time.sleep(LOOK_S)
    spent = cpu_s() - cpu - (time.process_time() - own)
    if len(found) < 2:
        print(f"{len(found)} rows came in {seconds:.0f} s")
        return
    cuts = statistics.quantiles(found, n=100, method="inclusive")
    print(
        f"{len(found)} rows in {made} versions: lag p50 {cuts[49]:.1f}, p95 {cuts[94]:.1f}, worst {max(found):.1f} s; "
        f"{spent / seconds:.2f} CPU-s a second, {spent / max(1, made):.1f} CPU-s a version",
        flush=True,
    )


def main(
    rate: Annotated[float, typer.Option(help="Lines a second")] = 500.0,
    seconds: Annotated[float, typer.Option(help="So long is measured")] = 60.0,
    warm_up_s: Annotated[float, typer.Option("--warm-up", help="So long is not")] = 45.0,
) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory(prefix="zabka-bench-") as made:
        data = Path(made) / "data"
        data.mkdir()
        ended = Event()
        writer = Thread(target=write, args=[data, histories(int(rate * (warm_up_s + seconds))), rate, ended])
        command = [
            "nice",
            sys.executable,
            "-m",
            "zabka.cli.main",
            "pipeline",
            "stream",
            "--data",
            str(data),
            "--follow",
        ]
        stream = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        writer.start()
        try:
            measured(data / "analytics", warm_up_s, seconds)
        finally:
            ended.set()
            writer.join()
            stream.terminate()
            stream.wait()


if __name__ == "__main__":
    typer.run(main)
