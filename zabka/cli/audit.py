"""Implementation of `zabka pipeline audit`: runs the audit and prints its result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from zabka.cli.simulate import USAGE, print_line

if TYPE_CHECKING:
    from zabka.pipeline.audits.histories import History
    from zabka.pipeline.places import Place, Uri
    from zabka.pipeline.topic.connection import TopicPlace

SHOWN_MAX = 20
_NONE = "No journals in {}. Name a directory with journals, such as one that `zabka replay --out` wrote"


def audited(place: Place, out: Path, master: str) -> int:
    """Check the invariants on all runs at this place, and return the exit code.

    Write the table of the audit to `out`, and print the violations.
    """
    from zabka.pipeline import versions
    from zabka.pipeline.audits.histories import histories
    from zabka.pipeline.audits.jobs import AUDITS, runs_of, violations_of

    runs: list[History] = []
    try:
        if isinstance(place, Path) and not (runs := histories(place)):
            raise ValueError(_NONE.format(place))
        versions.check_table(out / AUDITS)
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as reason:
        print_line(str(reason), error=True)
        return USAGE
    violations = _checked(runs if isinstance(place, Path) else place, out, master)
    if violations is None:
        return USAGE
    if not (count := runs_of(out)):
        print_line(_NONE.format(place), error=True)
        return USAGE
    rows = violations_of(out)
    broken = {row["run"] for row in rows}
    for row in rows[:SHOWN_MAX]:
        print_line(f"{row['run']}: {row['invariant']}: {row['detail']}")
        for step in row["chain"]:
            print_line(f"    because {step}")
        print_line(f"    replay: {row['command'] or 'unknown: the seed is not recorded'}")
    if violations > SHOWN_MAX:
        print_line(f"… and {violations - SHOWN_MAX} more in {out / 'audits'}")
    print_line(f"{count} runs, {len(broken)} with violations; the table is {out / 'audits'}")
    return 1 if violations else 0


def _checked(of: list[History] | TopicPlace | Uri, out: Path, master: str) -> int | None:
    from zabka.pipeline import versions
    from zabka.pipeline.audits.jobs import own_place
    from zabka.pipeline.packed import NotPacked
    from zabka.pipeline.session import FAILURES, NoSpark, first_line, was_interrupted

    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), transient=True, disable=not console.is_terminal, console=console,
    )  # fmt: skip
    with progress:
        bar = progress.add_task("starting Spark", total=len(of) if isinstance(of, list) else None)
        try:
            with versions.locked(own_place(out)):
                if isinstance(of, list):
                    return _checked_files(of, out, master, lambda done: progress.update(bar, completed=done))
                return _checked_rows(of, out, master)
        except (NotPacked, NoSpark, versions.InUse, OSError) as reason:
            print_line(str(reason), error=True)
        except FAILURES as reason:
            if was_interrupted(reason):
                raise KeyboardInterrupt from None
            print_line(f"The Spark job failed: {first_line(reason)}", error=True)
    return None


def _checked_files(runs: list[History], out: Path, master: str, show_done: Callable[[int], None]) -> int:
    from zabka.pipeline.audits.jobs import audit, own_place
    from zabka.pipeline.campaign.spark_players import spark_for_tasks
    from zabka.pipeline.packed import AUDITS

    with spark_for_tasks(master, own_place(out), "zabka audit", AUDITS) as spark:
        return audit(spark, runs, out, show_done)


def _checked_rows(place: TopicPlace | Uri, out: Path, master: str) -> int:
    from zabka.pipeline.audits.jobs import audit_rows, own_place
    from zabka.pipeline.entries import ENTRIES
    from zabka.pipeline.places import batch
    from zabka.pipeline.session import open_session, stop

    spark = open_session(master, "zabka audit", directory=own_place(out))
    try:
        return audit_rows(batch(spark, place, ",".join(ENTRIES)), out)
    finally:
        stop(spark)
