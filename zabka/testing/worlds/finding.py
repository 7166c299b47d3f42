"""The report of a failing seed: what it needs to fail, the events, the command that runs it, and its journal.

A failing seed is run again. If the two histories differ, the report shows only the first difference, because the seed
does not reproduce the failure reliably. Otherwise the seed is shrunk (`zabka.testing.worlds.shrinking`).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from zabka.journal.events import (
    Entry,
    FaultInjected,
    FaultRemoved,
    NodeStarted,
    NodeStopped,
    ProgramLogged,
    ProgramNoted,
)
from zabka.journal.printable import printable
from zabka.journal.sentence_file import read_sentences
from zabka.journal.sentences import Sentences
from zabka.journal.writer import encode_line
from zabka.kafka.topic_names import INTERNAL_TOPICS
from zabka.simulation.engine.refusal import LIBRARIES
from zabka.simulation.jitter import text_of
from zabka.testing.worlds.seed_test import Body, Parameters, SeedRun, run_seed
from zabka.testing.worlds.shrinking import EVERYTHING, FAULTS_S_MAX, JITTER_S_MAX, Report, Selected, Shrinking, Shrunk
from zabka.testing.worlds.world import TEST

STORY_LINES_MAX = 60
FOLDER = ".zabka-seeds"
"""Directory for the journals of failed seeds, in the current directory."""


class Command(NamedTuple):
    """The command that runs one seed of a test."""

    name: str
    of: Callable[[int, Selected], str]
    """Returns the command for a seed with the selected faults and jitter."""


class Finding:
    """A seed with which a test fails."""

    def __init__(
        self, parameters: Parameters, body: Body, seed: int, found: SeedRun, command: Command,
        selected: Selected = EVERYTHING,
    ) -> None:  # fmt: skip
        self._parameters = parameters
        self._body = body
        self._seed = seed
        self._found = found
        self._command = command
        self._selected = selected
        self._runs = 1

    def report(self, shows_progress: Report | None = None) -> str:
        """Run the seed again, and return the report of the failure.

        With `shows_progress`, shrink the seed, and call this function with a line of progress every two seconds.
        """
        again = self._run_traced()
        if again.digest != self._found.digest:
            return "\n".join(self._differing(again))
        if shows_progress is None:
            return "\n".join(self._lines(self._found, self._selected))
        shrinking = Shrinking(self._parameters, self._body, self._seed, self._found, shows_progress)
        shrunk = shrinking.shrink()
        self._runs += shrunk.runs
        return "\n".join(self._lines(shrunk.run, shrunk.selected, shrunk))

    def _run_traced(self) -> SeedRun:
        self._runs += 1
        faults, jitter = self._selected
        return run_seed(self._parameters, self._body, self._seed, faults, jitter=jitter, traced=True)

    # -- text of the report ------------------------------------------------------------------------------------------

    def _lines(self, run: SeedRun, selected: Selected, shrunk: Shrunk | None = None) -> Iterator[str]:
        total = len(self._found.injected)
        count = f"{total if selected.faults is None else len(selected.faults)} of {total} faults"
        found = f"seed {self._seed} and {count if total else 'no faults'}"
        yield f"zabka: {self._command.name} fails with {found}; run {self._runs} times"
        yield f"the schedule: {_schedule(run, selected)}"
        if shrunk is not None:
            limits = f"at most {FAULTS_S_MAX:.0f} s for the faults and {JITTER_S_MAX:.0f} s for the schedule"
            yield f"shrunk in {shrunk.cpu_s:.1f} s of CPU time ({limits})"
        yield "the story, in virtual seconds:"
        yield from (f"  {line}" for line in story(run))
        yield from self._commands(selected)
        yield from self._exported(run)

    def _commands(self, selected: Selected) -> Iterator[str]:
        yield "run this seed alone:"
        yield f"  {self._command.of(self._seed, EVERYTHING)}"
        if selected != EVERYTHING:
            yield "run exactly this story:"
            yield f"  {self._command.of(self._seed, selected)}"

    def _exported(self, run: SeedRun) -> Iterator[str]:
        path = export(run, f"{self._command.name}-seed-{self._seed}")
        yield f"the journal: {path} (zabka why EVENT --journal {path})"

    def _differing(self, again: SeedRun) -> Iterator[str]:
        third = self._run_traced()
        yield f"zabka: {self._command.name} fails with seed {self._seed}, but two runs of that seed differ"
        is_settled = third.digest == again.digest
        yield from difference(self._found, again)
        if not is_settled:
            yield from step_difference(again, third)
        yield f"likely source: {_SETTLED if is_settled else _UNSETTLED}"
        yield from self._commands(self._selected)
        yield from self._exported(self._found)


def _schedule(run: SeedRun, selected: Selected) -> str:
    """Return how many choices of the schedule were simplified in a run."""
    if selected.jitter is None:
        return "as drawn from the seed"
    count = f"{run.simplified} of {run.choices} choices were simplified to the smallest value"
    if not selected.jitter:
        return count
    return f"{count}; the others, in these virtual seconds, were not: {text_of(selected.jitter)}"


_SETTLED = (
    "state that outlives a run, because the second and the third run are equal. Look for globals of modules, caches "
    "and class attributes that the test does not reset."
)
_UNSETTLED = (
    "each run differs. Look for the order of a set whose members have no __hash__ of their own, id(), files of the "
    "host, or a clock that was bound at import (from time import monotonic)."
)


def story(run: SeedRun) -> list[str]:
    """Return the last important events before a run's failure, with its programs' notes and log lines."""
    sentences = read_sentences()
    lines = [
        _line(entry, sentences)
        for entry in run.entries
        if run.began_us <= entry.mono_us <= run.ended_us and _belongs(entry, sentences)
    ]
    if len(lines) > STORY_LINES_MAX:
        lines = [f"… {len(lines) - STORY_LINES_MAX} earlier lines", *lines[-STORY_LINES_MAX:]]
    failure = run.failure
    text = "".join(traceback.format_exception_only(failure)).strip() if failure is not None else "it passes"
    return [*lines, f"{run.ended_us / 1e6:9.3f}  {TEST}: {text.splitlines()[0]}"]


def _belongs(entry: Entry, sentences: Sentences) -> bool:
    event = entry.event
    if isinstance(event, NodeStarted | NodeStopped):
        return entry.node != TEST
    if isinstance(event, ProgramLogged):
        return not _is_of_library(event.logger)
    if isinstance(event, ProgramNoted | FaultInjected | FaultRemoved):
        return True
    return getattr(event, "topic", None) not in INTERNAL_TOPICS and sentences.belongs_in_story(entry.node, event)


def _is_of_library(logger: str) -> bool:
    """Return whether a logger has the name of an installed package.  The report omits log lines of such loggers."""
    module = sys.modules.get(logger.partition(".")[0])
    return (getattr(module, "__file__", None) or "").startswith(LIBRARIES)


def _line(entry: Entry, sentences: Sentences) -> str:
    text = printable(sentences.sentence(entry.node, entry.event))
    return f"{entry.mono_us / 1e6:9.3f}  {entry.node}: {text}"


def export(run: SeedRun, name: str) -> Path:
    """Write a run's journal to a file in the directory of failed seeds, and return the file's path."""
    folder = Path(FOLDER)
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    path = folder / ("".join(each if each.isalnum() or each in "-_." else "-" for each in name) + ".jsonl")
    path.write_bytes(b"".join(encode_line(e.node, e.node_seq, e.wall_us, e.mono_us, e.event) for e in run.entries))
    return path


def difference(first: SeedRun, second: SeedRun) -> Iterator[str]:
    """Yield lines that show the first event in which two runs of one seed differ."""
    sentences = read_sentences()
    for number, (one, other) in enumerate(zip_longest(first.entries, second.entries)):
        if one != other:
            yield f"the histories differ from event {number + 1} on:"
            for run, entry in (("first", one), ("second", other)):
                yield f"  {run} run: {'the end' if entry is None else _line(entry, sentences)}"
            return
    yield "the events are the same, but the programs took other turns between them"


def step_difference(first: SeedRun, second: SeedRun) -> Iterator[str]:
    """Yield lines that show the first event loop iteration in which two traced runs differ."""
    for one, other in zip_longest(first.steps, second.steps):
        if one != other:
            yield "the programs differ from this turn on:"
            for run, step in (("one", one), ("another", other)):
                told = "the end" if step is None else f"{step.at_us / 1e6:9.3f}  {step.program} at {step.place}"
                yield f"  {run} run: {told}"
            return
