"""`zabka search`: mutates the choice sequences of runs that reached new coverage until an invariant is violated."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from zabka.cli.options import Settings
from zabka.cli.simulate import USAGE, import_from_here, print_line
from zabka.cli.worker_processes import KILLED, results_of
from zabka.simulation.engine.garbage import collect_seldom, seldom_collected
from zabka.simulation.settings import BadSetting

if TYPE_CHECKING:
    from zabka.simulation.search.choice_search import ChoiceSearch, Found, Requested
    from zabka.simulation.search.choices_folder import ChoicesFolder
    from zabka.simulation.search.runs import Ran

RUNS_MAX = 5_000
LINE_EVERY_S = 10.0
SAVE_EVERY = 50
INTERRUPTED = 130
_FOR_LIFE = ExitStack()
"""Contexts that a worker process enters at its start and never leaves."""


def _begin_worker(injected_bug: str) -> None:
    from zabka.simulation.search.choice_search import injected

    collect_seldom()
    _FOR_LIFE.enter_context(injected(injected_bug))


def _results(search: ChoiceSearch, jobs: int) -> Generator[Ran]:
    """Run the search's requests in `jobs` processes. Yield the results in the order of the requests."""
    from zabka.simulation.search.choice_search import injected
    from zabka.simulation.search.runs import run_one_of_many

    wanted, settings = search.wanted, search.wanted.world()
    calls = (partial(run_one_of_many, number, search.next_choices(), wanted.scenario, settings) for number in count())
    if jobs == 1:
        with injected(wanted.injected_bug):
            yield from (call() for call in calls)
    else:
        yield from results_of(calls, jobs=jobs, ahead=2 * jobs, begin=partial(_begin_worker, wanted.injected_bug))


class _Shown:
    """Progress display. On a terminal, one line is updated in place; elsewhere, a new line is printed occasionally."""

    def __init__(self, search: ChoiceSearch) -> None:
        self._search = search
        self._terminal = sys.stderr.isatty()
        self._begin_s = self._printed_s = time.monotonic()
        self._before = search.runs
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.progress = Progress(*columns, transient=True, disable=not self._terminal)
        self._task = self.progress.add_task("")

    def line(self) -> str:
        search = self._search
        speed = (search.runs - self._before) / max(time.monotonic() - self._begin_s, 0.001)
        return (
            f"{search.runs:,} runs, {len(search.corpus.kept):,} choice sequences, "
            f"{len(search.corpus.reached):,} features reached, {len(search.found)} found, {speed:,.1f} runs a second"
        )

    def update(self) -> None:
        now_s = time.monotonic()
        if self._terminal:
            self.progress.update(self._task, description=self.line())
        elif now_s - self._printed_s >= LINE_EVERY_S:
            self._printed_s = now_s
            print_line(self.line(), error=True)


def _report(found: Found, search: ChoiceSearch, folder: ChoicesFolder) -> None:
    """Shorten the choice sequence that violates an invariant, save it, and print the command that replays it."""
    from zabka.simulation.scenarios.story import performed_actions
    from zabka.simulation.search.choice_search import injected, shrunk
    from zabka.simulation.search.runs import play_choices

    wanted = search.wanted
    print_line(f"run {found.run}: {found.problems[0]}")
    # Write the original choice sequence first, so that it is not lost if the shortening is interrupted.
    folder.found(found, found.choices, found.problems, [])
    with injected(wanted.injected_bug):
        choices, problems, runs = shrunk(found, wanted)
        verdict = play_choices(choices, wanted.scenario, wanted.world())
    faults = performed_actions(verdict)
    path = folder.found(found, choices, problems, faults)
    print_line(f"  made short in {runs} runs: {len(faults)} faults, {verdict.virtual_ms / 1000:.1f} simulated seconds")
    for fault in faults:
        print_line(f"    {fault}")
    print_line(f"  replay: zabka replay {path} --story")


def search_for(
    wanted: Requested, folder: ChoicesFolder, jobs: int, ended: Callable[[ChoiceSearch], bool]
) -> ChoiceSearch:
    """Search until `ended` returns true or Ctrl-C is pressed, and return the search.

    The folder contains the state of earlier searches, from which this search continues, and stores the new results.

    Raises OtherSearch, OSError.
    """
    from zabka.simulation.search.choice_search import ChoiceSearch

    search = ChoiceSearch(wanted)
    if folder.state.runs:
        search.resume(folder.kept(), folder.state.runs)
        search.cpu_s = folder.state.cpu_s
    for path, before in folder.findings().items():
        search.found[before.invariant] = before
        print_line(f"found before, in run {before.run}: {before.problems[0]}  replay: zabka replay {path} --story")
    shown = _Shown(search)
    with shown.progress, seldom_collected(), suppress(KeyboardInterrupt), closing(_results(search, jobs)) as results:
        try:
            while not ended(search):
                kept, found = search.record_run(next(results))
                if kept is not None:
                    folder.keep(search.runs, kept)
                if found is not None:
                    _report(found, search, folder)
                if search.runs % SAVE_EVERY == 0:
                    folder.save(search.runs, search.cpu_s)
                shown.update()
        finally:
            folder.save(search.runs, search.cpu_s)
    print_line(f"{shown.line()}; {search.cpu_s:,.0f} s of CPU; {folder.path}")
    return search


def _ended(runs: int, minutes: float | None, findings: int) -> Callable[[ChoiceSearch], bool]:
    begin_s = time.monotonic()

    def ended(search: ChoiceSearch) -> bool:
        late = minutes is not None and time.monotonic() - begin_s > 60 * minutes
        return late or len(search.found) >= findings or (minutes is None and search.runs >= runs)

    return ended


def command(
    scenario: Annotated[
        str,
        typer.Option(
            envvar="ZABKA_SCENARIO",
            help="swarm (a whole cluster), swarm-ensemble (peers only), swarm-disks, swarm-protocol (every packet and "
            "every fsync is a choice), swarm-files (the same over real logs), or a scenario of `zabka simulate`",
        ),
    ] = "swarm",
    set_: Settings = None,
    runs: Annotated[int, typer.Option(min=1, envvar="ZABKA_RUNS", help="Stop after that many runs")] = RUNS_MAX,
    minutes: Annotated[
        float | None, typer.Option(min=0, envvar="ZABKA_MINUTES", help="Stop after that time, not after --runs")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, envvar="ZABKA_JOBS", help="Processes")] = 1,
    findings: Annotated[
        int, typer.Option(min=1, envvar="ZABKA_FINDINGS", help="Stop after that many different violations")
    ] = 1,
    injected_bug: Annotated[
        str,
        typer.Option(
            "--bug", envvar="ZABKA_BUG", help="MODULE:NAME, a context manager that injects a bug, to see it found"
        ),
    ] = "",
    seed: Annotated[int, typer.Option(min=0, envvar="ZABKA_SEED", help="Seed of the search")] = 0,
    out: Annotated[
        Path, typer.Option(envvar="ZABKA_OUT", help="Directory of the search; an existing search is continued")
    ] = Path(".zabka-search"),
) -> None:
    """Search for a violation by changing choice sequences that reached new coverage; exit code 1 if one is found."""
    from zabka.simulation.search.choice_search import Requested, injected
    from zabka.simulation.search.choices_folder import ChoicesFolder, OtherSearch, held
    from zabka.simulation.search.runs import SEARCHED

    wanted = Requested(scenario, tuple(set_ or ()), injected_bug, seed)
    with ExitStack() as stack:
        try:
            if scenario not in SEARCHED:
                known = ", ".join(sorted(SEARCHED))
                raise ValueError(f"there is no scenario {scenario!r} to search; there are {known}")
            import_from_here()
            injected(injected_bug)
            wanted.world()
            stack.enter_context(held(out))
            folder = ChoicesFolder(out, wanted)
        except (ValueError, BadSetting, OtherSearch, OSError) as reason:
            print_line(str(reason), error=True)
            raise typer.Exit(USAGE) from None
        ended = _ended(runs, minutes, findings)
        try:
            search = search_for(wanted, folder, jobs, ended)
        except OtherSearch as reason:
            print_line(str(reason), error=True)
            raise typer.Exit(USAGE) from None
        except BrokenProcessPool:
            print_line(KILLED, error=True)
            raise typer.Exit(USAGE) from None
    if search.found:
        raise typer.Exit(1)
    # Exit code 0 requires that all planned runs were made and that every invariant held.
    raise typer.Exit(0 if ended(search) else INTERRUPTED)
