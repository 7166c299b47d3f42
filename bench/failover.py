"""`make failover`: how long an ensemble is without a leader, after a crash and after a freeze.

Three measurements with real processes, a client writing with one request in flight all the while:

killed    the leader gets SIGKILL; the longest time between two acknowledged writes is the outage.
frozen    the leader gets SIGSTOP.  Its connections stay and say nothing, so only the read time-out of `syncLimit` ticks
          finds it; what the outage takes beyond that is the election's and ours to keep small.
quorum    every other voter gets SIGSTOP: the leader must notice that nobody follows it, and stop serving.

Exit code 0, 1 where it cannot measure or ours lost a write or a session, 2 for a bad option, 130 after Ctrl-C.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.compare import INTERRUPTED, Only, choose_sides
from bench.ensembles import TITLES, Ensemble, Shape, Side, running
from bench.interrupts import interruptible
from bench.load import CannotMeasure
from bench.machine import describe
from bench.zkfailover import Outcome, Patience, fail_over, mode

STEP_DOWN_PATIENCE_S = 60.0
POLL_S = 0.005
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Fault(StrEnum):
    """What is done to the ensemble."""

    KILLED = "killed"
    FROZEN = "frozen"
    QUORUM = "quorum"


class Round(msgspec.Struct, frozen=True):
    """One fault: how long until writes went on, or until the leader stepped down, and what became of the promises."""

    side: Side
    fault: Fault
    took_ms: float
    lost: int = 0
    session_kept: bool = True


class Row(msgspec.Struct, frozen=True):
    """All rounds of one fault on one side; `over_ms` is the median of what came on top of `syncLimit`."""

    rounds: int
    median_ms: float
    worst_ms: float
    over_ms: float | None
    worst_over_ms: float | None
    lost: int
    sessions_lost: int


def row(rounds: list[Round], fault: Fault, shape: Shape) -> Row:
    """Several rounds together."""
    took = [each.took_ms for each in rounds]
    limit_ms = None if fault is Fault.KILLED else shape.sync_limit_ms
    return Row(
        rounds=len(rounds),
        median_ms=round(statistics.median(took), 1),
        worst_ms=max(took),
        over_ms=None if limit_ms is None else round(statistics.median(took) - limit_ms, 1),
        worst_over_ms=None if limit_ms is None else round(max(took) - limit_ms, 1),
        lost=sum(each.lost for each in rounds),
        sessions_lost=sum(not each.session_kept for each in rounds),
    )


def kill_leader(ensemble: Ensemble) -> Round:
    """SIGKILL under a writing client; the server is back when this returns."""
    leader, outcome = _under_writes(ensemble, lambda n: ensemble.kill(n + 1))
    ensemble.start(leader + 1)
    return _round(ensemble.side, Fault.KILLED, outcome)


def freeze_leader(ensemble: Ensemble) -> Round:
    """SIGSTOP under a writing client; the server runs again when this returns."""
    leader, outcome = _under_writes(ensemble, lambda n: ensemble.freeze(n + 1))
    ensemble.thaw(leader + 1)
    return _round(ensemble.side, Fault.FROZEN, outcome)


def freeze_followers(ensemble: Ensemble) -> Round:
    """SIGSTOP all voters but the leader, and wait until it says that it serves no longer."""
    voters = ensemble.hosts[: ensemble.shape.voters]
    leader = _leader(voters)
    others = [n + 1 for n in range(len(voters)) if n != leader]
    # At any point between two pings of the leader, which come every half tick.
    time.sleep(random.uniform(0, ensemble.shape.tick_ms / 1000))
    begin = time.perf_counter()
    try:
        for n in others:
            ensemble.freeze(n)
        while mode(voters[leader]) == "leader":
            if time.perf_counter() - begin > STEP_DOWN_PATIENCE_S:
                raise CannotMeasure(f"{TITLES[ensemble.side]}: a leader without followers leads on")
            time.sleep(POLL_S)
        took_s = time.perf_counter() - begin
    finally:
        for n in others:
            ensemble.thaw(n)
    return Round(ensemble.side, Fault.QUORUM, round(1000 * took_s, 1))


FAULTS: dict[Fault, Callable[[Ensemble], Round]] = {
    Fault.KILLED: kill_leader,
    Fault.FROZEN: freeze_leader,
    Fault.QUORUM: freeze_followers,
}
NAMES: dict[Fault, str] = {
    Fault.KILLED: "leader killed",
    Fault.FROZEN: "leader frozen",
    Fault.QUORUM: "followers frozen",
}


def _leader(hosts: list[str]) -> int:
    try:
        return [mode(host) for host in hosts].index("leader")
    except ValueError:
        raise CannotMeasure("there is no leader") from None


def _under_writes(ensemble: Ensemble, fault: Callable[[int], None]) -> tuple[int, Outcome]:
    before_s = 0.5 + random.uniform(0, ensemble.shape.tick_ms / 1000)
    patience = Patience(before_s, 1.0, 20 + 2 * ensemble.shape.sync_limit_ms / 1000)
    try:
        return fail_over(ensemble.hosts, fault, patience)
    except (OSError, ValueError) as failure:
        raise CannotMeasure(f"{TITLES[ensemble.side]}: {failure}") from failure


def _round(side: Side, fault: Fault, outcome: Outcome) -> Round:
    return Round(side, fault, outcome.gap_ms, outcome.lost, outcome.session_kept)


def measure(
    side: Side, shape: Shape, counts: dict[Fault, int], directory: Path, rounds: list[Round], told: Console
) -> None:
    """Every fault so many times on one ensemble, added to `rounds` as they come.  Raises CannotMeasure."""
    with running(side, directory / side, shape) as ensemble:
        for fault, count in counts.items():
            for number in range(1, count + 1):
                done = FAULTS[fault](ensemble)
                rounds.append(done)
                told.print(f"{TITLES[side]}, {fault} {number}/{count}: {done.took_ms:,.0f} ms", markup=False)
                ensemble.await_ready()


def table(rounds: list[Round], shape: Shape) -> Table:
    """Ours and ZooKeeper, fault by fault; milliseconds."""
    limit = f"syncLimit {shape.sync_limit_ticks} x {shape.tick_ms:,} ms = {shape.sync_limit_ms:,} ms"
    made = Table(title=f"Fail-over, {shape.voters} servers, {limit}")
    for header in ("", "rounds", "median", "worst", "over limit", "lost"):
        made.add_column(header, justify="right" if header else "left")
    for (fault, side), found in rows(rounds, shape).items():
        over = "" if found.over_ms is None else f"{found.over_ms:+,.0f} to {found.worst_over_ms:+,.0f}"
        lost = (
            f"{found.lost} writes, {found.sessions_lost} sessions" if found.lost or found.sessions_lost else "nothing"
        )
        made.add_row(
            f"{NAMES[fault]}: {TITLES[side]}", str(found.rounds), f"{found.median_ms:,.0f}", f"{found.worst_ms:,.0f}",
            over, "" if fault is Fault.QUORUM else lost,
        )  # fmt: skip
    return made


def rows(rounds: list[Round], shape: Shape) -> dict[tuple[Fault, Side], Row]:
    """What was measured, fault by fault, side by side."""
    grouped: dict[tuple[Fault, Side], list[Round]] = {}
    for fault in Fault:
        for each in rounds:
            if each.fault is fault:
                grouped.setdefault((fault, each.side), []).append(each)
    return {key: row(found, key[0], shape) for key, found in grouped.items()}


@app.command()
def main(
    kills: Annotated[int, typer.Option(min=0, max=1000, help="Kill the leader this often")] = 20,
    freezes: Annotated[int, typer.Option(min=0, max=1000, help="Freeze the leader, and its quorum, this often")] = 5,
    peers: Annotated[int, typer.Option(min=3, max=9, help="Voters")] = 3,
    tick_time: Annotated[int, typer.Option(min=50, max=60_000, help="tickTime, in milliseconds")] = 2000,
    sync_limit: Annotated[int, typer.Option(min=1, max=100, help="syncLimit, in ticks")] = 2,
    zookeeper: Annotated[bool, typer.Option(help="Apache ZooKeeper 3.9.5 as well")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON document on standard output")] = False,
) -> None:
    """Kill and freeze leaders of an ensemble of real processes, and see how soon there is another."""
    errors = Console(stderr=True, highlight=False)
    shape = Shape(voters=peers, tick_ms=tick_time, sync_limit_ticks=sync_limit)
    counts = {Fault.KILLED: kills, Fault.FROZEN: freezes, Fault.QUORUM: freezes}
    rounds: list[Round] = []
    ended = 0
    with interruptible(), tempfile.TemporaryDirectory(prefix="zabka-failover-") as directory:
        machine = describe(Path(directory))
        try:
            sides, notes = choose_sides(None if zookeeper else Only.OURS.value)
            for note in notes:
                errors.print(note, style="yellow", markup=False)
            for side in sides:
                measure(side, shape, counts, Path(directory), rounds, errors)
        except CannotMeasure as reason:
            errors.print(f"failover: {reason}", style="red", markup=False)
            ended = 1
        except KeyboardInterrupt:
            errors.print("interrupted: every server is stopped", style="yellow")
            ended = INTERRUPTED
    _tell(rounds, shape, machine, errors if as_json else Console(highlight=False))
    if as_json:
        print(json.dumps(_document(rounds, shape, machine), indent=2))
    broken = any(each.side == "ours" and (each.lost or not each.session_kept) for each in rounds)
    raise typer.Exit(ended or int(broken))


def _tell(rounds: list[Round], shape: Shape, machine: dict[str, object], out: Console) -> None:
    if rounds:
        out.print(table(rounds, shape))
        out.print(", ".join(f"{key.replace('_', ' ')} {value}" for key, value in machine.items()), style="dim")


def _document(rounds: list[Round], shape: Shape, machine: dict[str, object]) -> dict[str, object]:
    summaries = {f"{fault}/{side}": msgspec.to_builtins(found) for (fault, side), found in rows(rounds, shape).items()}
    return {
        "machine": machine,
        "shape": shape._asdict(),
        "summaries": summaries,
        "rounds": msgspec.to_builtins(rounds),
    }


if __name__ == "__main__":
    app(prog_name="failover")
