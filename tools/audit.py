"""What `zabka pipeline audit` does and says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tools.simulate import USAGE, say

if TYPE_CHECKING:
    from pipeline.audits.histories import History

SHOWN_MAX = 20


def audited(data: Path, out: Path, master: str) -> int:
    """Judge all below `data`, write the table, tell what broke: the exit code."""
    from pipeline import versions
    from pipeline.audits.histories import histories
    from pipeline.audits.jobs import AUDITS, violations_of

    try:
        runs = histories(data)
    except (OSError, ValueError) as reason:
        say(str(reason), error=True)
        return USAGE
    if not runs:
        say(
            f"No journals below {data}: name a directory with some, such as one that `zabka replay --out` wrote",
            error=True,
        )
        return USAGE
    try:
        versions.check_table(out / AUDITS)
        out.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        say(str(reason), error=True)
        return USAGE
    violations = _judged(runs, out, master)
    if violations is None:
        return USAGE
    rows = violations_of(out)
    broken = {row["run"] for row in rows}
    for row in rows[:SHOWN_MAX]:
        say(f"{row['run']}: {row['invariant']}: {row['detail']}")
        for step in row["chain"]:
            say(f"    because {step}")
        say(f"    replay: {row['command'] or 'not known: nothing says which seed this is'}")
    if violations > SHOWN_MAX:
        say(f"… and {violations - SHOWN_MAX} more in {out / 'audits'}")
    say(f"{len(runs)} runs, {len(broken)} with violations; the table is {out / 'audits'}")
    return 1 if violations else 0


def _judged(runs: list[History], out: Path, master: str) -> int | None:
    from pipeline import versions
    from pipeline.audits.jobs import audit, own_place
    from pipeline.campaign.spark_players import spark_for_tasks
    from pipeline.packed import AUDITS, NotPacked
    from pipeline.session import FAILURES, NoSpark, first_line

    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), transient=True, disable=not console.is_terminal, console=console,
    )  # fmt: skip
    with progress:
        bar = progress.add_task("starting Spark", total=len(runs))
        try:
            with (
                versions.locked(own_place(out)),
                spark_for_tasks(master, own_place(out), "zabka audit", AUDITS) as spark,
            ):
                progress.update(bar, description="runs judged")
                return audit(spark, runs, out, lambda judged: progress.update(bar, completed=judged))
        except (NotPacked, NoSpark, versions.InUse, OSError) as reason:
            say(str(reason), error=True)
        except FAILURES as reason:
            say(f"Spark could not do it: {first_line(reason)}", error=True)
    return None
