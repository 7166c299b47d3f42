"""`zabka campaign …`: run combinations of settings and seeds in the simulated world, and report the results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from zabka.cli.campaign_processes import process_players
from zabka.cli.command_group import CommandGroup
from zabka.cli.failure import fail
from zabka.cli.simulate import USAGE, print_line
from zabka.cli.spark_connect import no_connect
from zabka.cli.worker_processes import KILLED
from zabka.ensemble.runtime.extras import Lacking, require

if TYPE_CHECKING:
    from zabka.pipeline.campaign.definition import Campaign
    from zabka.pipeline.campaign.engine import Ended, Players
    from zabka.pipeline.campaign.engine import Progress as Stand
    from zabka.pipeline.campaign.ledger import Ledger
    from zabka.pipeline.campaign.results import Results

app = typer.Typer(cls=CommandGroup, name="campaign", no_args_is_help=True, add_completion=False, rich_markup_mode=None)
INTERRUPTED = 130

File = Annotated[Path, typer.Argument(help="The campaign file (TOML); docs/campaigns/ has five.")]
Out = Annotated[
    Path | None,
    typer.Option(envvar="ZABKA_OUT", help="Directory for runs, tables and report; by default in the lake of --data."),
]
Data = Annotated[
    Path,
    typer.Option(envvar="ZABKA_DATA", help="The data directory whose lake receives it, and whose dashboard shows it."),
]
Master = Annotated[
    str | None,
    typer.Option(help="Any Spark master, such as spark://host:7077; without one, runs are played by local processes."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1, envvar="ZABKA_JOBS", help="Number of local processes, without --master; default: number of CPUs."
    ),
]


class _Rate(ProgressColumn):
    """Progress column that shows runs per second."""

    def render(self, task: Task) -> Text:
        """Return the recent number of runs per second, or an empty string if it is unknown."""
        return Text("" if not task.speed else f"{task.speed:.2f} runs/s")


@app.callback()
def campaigns() -> None:
    """Run all settings with all seeds in the simulated world; exit code 1 if an invariant was violated."""


@app.command()
def run(file: File, master: Master = None, jobs: Jobs = None, out: Out = None, data: Data = Path(".zabka")) -> None:
    """Run a campaign, or continue a stopped one; exit code 1 if an invariant was violated.

    Local processes execute the runs, or Spark if --master names one; the results are the same. Without --out the
    campaign is written to DATA/analytics/campaigns/NAME, and its tables are also part of the lake.
    """
    try:
        require("spark", "campaigns are")
    except Lacking as missing:
        fail(missing)
    from zabka.pipeline.campaign.definition import BadCampaign, read_campaign
    from zabka.pipeline.campaign.landing import CAMPAIGNS
    from zabka.pipeline.campaign.ledger import NotThisCampaign, opened
    from zabka.pipeline.campaign.standing import begun, write

    try:
        campaign = read_campaign(file)
    except BadCampaign as reason:
        fail(reason, USAGE)
    if master is not None and jobs is not None:
        fail("--jobs is for local processes, and --master for Spark: leave one of them out", USAGE)
    if master is not None and (connect := no_connect(master)) is not None:
        fail(connect, USAGE)
    target = (out or data / "analytics" / CAMPAIGNS / file.stem).resolve()
    definition = file.read_text()
    _warn_of_too_few_seeds(campaign)
    try:
        with opened(target, definition) as ledger:
            write(target, begun(campaign))
            ended = _played(campaign, ledger, _players(master, jobs, target))
            found = _written(campaign, ledger, ended, target, definition)
    except (NotThisCampaign, OSError) as reason:
        fail(reason, USAGE)
    except KeyboardInterrupt:
        print_line(f"stopped. The same command continues from the runs in {target}", error=True)
        raise typer.Exit(INTERRUPTED) from None
    _print_results(found, target)
    raise typer.Exit(1 if found.violating else 0)


def _warn_of_too_few_seeds(campaign: Campaign) -> None:
    from zabka.pipeline.campaign.engine import seeds_needed

    count, seeds, needed = len(campaign.points()), len(campaign.seed_numbers()), seeds_needed(campaign)
    if count > 1 and seeds < needed:
        print_line(
            f"{seeds} seeds cannot distinguish {count} settings, whatever their effect: at least {needed} are needed",
            error=True,
        )


@contextmanager
def _players(master: str | None, jobs: int | None, target: Path) -> Iterator[Players]:
    """Yield the function that executes the campaign's runs: in local processes, or in Spark tasks if `master` is given.

    Exit with an error message if the processes or Spark fail.
    """
    from zabka.pipeline.campaign.spark_players import spark_players
    from zabka.pipeline.packed import NotPacked
    from zabka.pipeline.session import FAILURES, NoSpark, first_line, was_interrupted

    if master is None:
        try:
            yield process_players(jobs or os.cpu_count() or 1)
        except BrokenProcessPool:
            fail(f"{KILLED}. The same command continues", USAGE)
        return
    try:
        with spark_players(master, target) as players:
            yield players
    except (NotPacked, NoSpark) as reason:
        fail(reason, USAGE)
    except (*FAILURES, OSError) as reason:
        if was_interrupted(reason):
            raise KeyboardInterrupt from None
        if isinstance(reason, OSError):
            raise
        fail(f"Spark could not run all of them: {first_line(reason)}. The same command continues", USAGE)


def _played(campaign: Campaign, ledger: Ledger, provided: AbstractContextManager[Players]) -> Ended:
    from zabka.pipeline.campaign.engine import NotPlayed, run_campaign

    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeElapsedColumn(),
        TimeRemainingColumn(), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with progress:
        bar = progress.add_task("starting", total=None)

        def show_progress(stand: Stand) -> None:
            progress.update(bar, description="runs", total=stand.most, completed=stand.done)
            if stand.played is not None:
                for problem in stand.played.problems:
                    print_line(f"seed {stand.played.seed}: {problem}  replay: {stand.played.command}")

        try:
            with provided as players:
                return run_campaign(campaign, ledger, players, show_progress)
        except NotPlayed as reason:
            fail(reason, USAGE)


def _written(campaign: Campaign, ledger: Ledger, ended: Ended, target: Path, definition: str) -> Results:
    from zabka.pipeline.campaign import standing
    from zabka.pipeline.campaign.landing import lake_of, land
    from zabka.pipeline.campaign.provenance import provenance
    from zabka.pipeline.campaign.report import report
    from zabka.pipeline.campaign.results import results, write_tables

    found = results(campaign, ledger.runs, ended)
    tables = write_tables(found, target)
    if (lake := lake_of(target)) is not None:
        land(target, lake, list(tables))
    aside = target / ".report.html"
    aside.write_text(report(found, definition, provenance()))
    aside.replace(target / "report.html")
    standing.write(target, standing.ended(found))
    return found


def _print_results(found: Results, target: Path) -> None:
    from zabka.pipeline.campaign.answer import answer

    print_line(found.campaign.question)
    for sentence in answer(found):
        print_line(f"- {sentence}")
    print_line(f"report: {target / 'report.html'}; tables: runs, estimates, differences, violations")


@app.command("from-journal")
def from_journal(
    data: Annotated[Path, typer.Argument(help="A cluster's data directory, or another directory with its journals.")],
    out: Annotated[Path | None, typer.Option(help="File to write; by default standard output.")] = None,
) -> None:
    """Write a campaign file from a live cluster's shape, settings and observed faults."""
    from zabka.journal.reader import merge, read_file
    from zabka.pipeline.campaign.definition import BadCampaign, parse_campaign
    from zabka.pipeline.campaign.observed import campaign_text, observe
    from zabka.pipeline.runs import journal_files

    files = journal_files(data) if data.exists() else []
    if not files:
        fail(f"there are no journals in {data}", USAGE)
    if len({file.run for file in files}) > 1:
        fail(f"{data} contains several runs. Name the directory of one", USAGE)
    seen = observe(merge(entry for file in files for entry in read_file(file.path)))
    if not seen.brokers or not seen.peers:
        fail(f"the journals in {data} contain no start of a peer or broker", USAGE)
    text = campaign_text(seen, data.resolve().name)
    try:
        parse_campaign(text)
    except BadCampaign as reason:
        fail(f"the journals cannot be made into a campaign: {reason}")
    if out is None:
        sys.stdout.write(text)
    else:
        try:
            out.write_text(text)
        except OSError as reason:
            fail(reason, USAGE)
        print_line(f"written: {out}; run it with `zabka campaign run {out}`")
