"""`zabka what-if`: rerun a seed with a change from a given moment on, or forecast the death of a live node."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from zabka.cli.failure import fail
from zabka.cli.output_file import check_output
from zabka.cli.simulate import USAGE, print_line

if TYPE_CHECKING:
    from zabka.cli.damage import Figure
    from zabka.cli.forked_pair import Asked, Pair
    from zabka.cli.futures import PlayFutures
    from zabka.cli.live_what_if import LiveQuestion
    from zabka.journal.causes import Causes
    from zabka.journal.events import Entry
    from zabka.journal.sentences import Sentences
    from zabka.simulation.engine.tap import MessageTap
    from zabka.simulation.fork import Change

SHOWN = 3
"""Number of events of each run that are printed at the first difference."""
EVERY_US_MIN = 100_000
AS_IT_WAS, WHAT_IF = "as it was", "what if"


def change_text(change: Change) -> str:
    """Return a phrase that describes a change."""
    parts = [f"without {', '.join(change.left_out)}"] if change.left_out else []
    for names, what in ((change.killed, "killed"), (change.paused, "paused")):
        parts += [f"{name} is {what} for {change.lasts_ms / 1000:g} s" for name in names]
    parts += [f"{key}={value}" for key, value in change.settings.items()]
    parts += [f"{key}={value} from the start" for key, value in change.started_with.items()]
    return ", ".join(parts) or "no change"


def change_options(change: Change) -> str:
    """Return the options that make this change."""
    parts = [] if change.started_with else [f"--at {change.at_us / 1_000_000:.6f}s"]
    parts += [f"--without {each}" for each in change.left_out]
    parts += [f"--kill {each}" for each in change.killed] + [f"--pause {each}" for each in change.paused]
    parts += [f"--for {change.lasts_ms / 1000:g}s"] if change.killed or change.paused else []
    settings = {**change.settings, **change.started_with}
    return " ".join([*parts, *(f"--set {key}={value}" for key, value in settings.items())])


def report(asked: Asked, pair: Pair) -> Iterator[str]:
    """Yield the lines of the report that compares the run with its fork."""
    from zabka.cli.damage import figures, seconds
    from zabka.journal.sentence_file import read_sentences
    from zabka.simulation.settings import WorldSettings

    change, sentences = pair.change, read_sentences()
    at = seconds(change.at_us)
    since = "" if change.started_with else f", from {at} on"
    yield f"seed {asked.seed} of {asked.scenario}{since}: {change_text(change)}"
    if pair.same == len(pair.run.entries) == len(pair.fork.entries):
        yield f"the two runs are identical, byte for byte: {pair.same:,} events"
        return
    until = "" if change.started_with else ", up to then"
    yield f"identical, byte for byte{until}: the first {pair.same:,} events"
    yield from ("", "the first events that differ")
    for name, run in ((AS_IT_WAS, pair.run), (WHAT_IF, pair.fork)):
        for entry in run.entries[pair.same : pair.same + SHOWN]:
            yield f"  {name:9}  {_event(entry, sentences)}"
    yield from _decisive(pair, sentences)
    both = [
        figures(run, change.at_us, settings, sentences)
        for run, settings in ((pair.run, asked.settings or WorldSettings()), (pair.fork, pair.settings))
    ]
    yield ""
    yield from _table(*both)
    yield from _causes(*both)


def _event(entry: Entry, sentences: Sentences) -> str:
    from zabka.cli.damage import seconds
    from zabka.journal.printable import printable

    sentence = printable(sentences.sentence(entry.node, entry.event))
    return f"{seconds(entry.mono_us):>10}  {entry.node}#{entry.node_seq}: {sentence}"


def _decisive(pair: Pair, sentences: Sentences) -> Iterator[str]:
    """Yield the first difference that led to another outcome, and its causes."""
    from zabka.cli.damage import on_world_clock
    from zabka.journal.causes import Causes
    from zabka.journal.outcomes import deciding

    runs = [on_world_clock(run.entries) for run in (pair.run, pair.fork)]
    found = deciding(*runs)
    if found is None:
        return
    yield from ("", "the first difference that led to another outcome, or else of any decision")
    for name, entries, entry in zip((AS_IT_WAS, WHAT_IF), runs, found, strict=True):
        if entry is None:
            yield f"  {name:9}  no such event"
            continue
        causes = Causes()
        for each in entries:
            causes.see(each)
        yield from (f"  {name if not place else '':9}  {line}" for place, line in
                    enumerate(_chain(causes, entry, sentences)))  # fmt: skip


def _chain(causes: Causes, entry: Entry, sentences: Sentences) -> Iterator[str]:
    from zabka.journal.printable import printable

    chain = causes.chain(entry)
    for place, step in enumerate(chain.steps):
        more = place + 1 < len(chain.steps) or chain.says
        yield f"{_event(step, sentences)}{' because' if more else ''}"
    if chain.says:
        yield f"{'':10}  {printable(chain.says)}"


def _table(ours: Sequence[Figure], theirs: Sequence[Figure]) -> Iterator[str]:
    rows = [
        ("", AS_IT_WAS, WHAT_IF),
        *((one.title, one.value, two.value) for one, two in zip(ours, theirs, strict=True)),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for title, *values in rows:
        cells = "  ".join(value.rjust(width) for value, width in zip(values, widths[1:], strict=True))
        yield f"{title.ljust(widths[0])}  {cells}"


def _causes(ours: Sequence[Figure], theirs: Sequence[Figure]) -> Iterator[str]:
    """Yield a line with the main cause of each figure that has one, for both runs."""
    lines = [
        f"  {name:9}  {figure.title}: {figure.cause}"
        for pair in zip(ours, theirs, strict=True)
        for name, figure in zip((AS_IT_WAS, WHAT_IF), pair, strict=True)
        if figure.cause
    ]
    if lines:
        yield from ("", "the cause of most of it", *lines)


def _page(asked: Asked, pair: Pair, taps: Sequence[MessageTap]) -> bytes:
    """Return both runs as one HTML file. Raises NoPage."""
    from zabka.api.exports.file import page_of
    from zabka.api.exports.played import forked_runs

    named = f"--seed {asked.seed} --scenario {asked.scenario}"
    commands = f"zabka replay {named}", f"zabka what-if {named} {change_options(pair.change)}"
    runs = forked_runs(asked.scenario, (pair.run, pair.fork), taps, change_text(pair.change), commands)
    return page_of(runs, runs[1].about.id, "compare").encode()


def _write(out: Path, page: bytes) -> None:
    try:
        out.write_bytes(page)
    except OSError as reason:
        fail(reason, USAGE)
    print_line(f"{out}: {len(page) / 1_000_000:.2f} MB", error=True)


def _futures(asked: Asked, pair: Pair, count: int, play: PlayFutures) -> Iterator[str]:
    """Yield the lines of a table that compares futures of the run, and of the fork if there is a change.

    Each future continues from the time of the change with other random numbers.
    """
    from zabka.cli.damage import seconds
    from zabka.cli.futures import hash_before, numbered, table
    from zabka.simulation.fork import Change

    changes = [Change(pair.change.at_us), *([] if pair.change.is_empty else [pair.change])]
    columns = [
        (change_text(each), play(asked.seed, asked.scenario, asked.settings, numbered(each, count))) for each in changes
    ]
    before = hash_before(pair.run, pair.change.at_us)
    assert all(future.before == before for _, column in columns for future in column), "please report this"
    yield from (
        "",
        f"{count} futures, in which the world draws other random numbers from {seconds(pair.change.at_us)} on",
    )
    yield from table(columns)


class Fork(msgspec.Struct, frozen=True):
    """Result of a fork, as JSON for other programs."""

    change: str
    same: int
    """Number of events before the first difference."""
    problems: list[str]
    virtual_ms: int
    journal_sha256: str


def write_fork(asked: Asked, directory: Path) -> None:
    """Play the run and its fork, write the fork's journal and messages, and print a `Fork`.  Raises BadChange, OSError.

    The files are `what-if.jsonl` and `what-if.messages.jsonl`.
    """
    from zabka.cli.forked_pair import play
    from zabka.simulation.engine.garbage import seldom_collected
    from zabka.simulation.engine.tap import MessageTap

    tap = MessageTap()
    with seldom_collected():
        pair = play(asked, (None, tap))
    lines = b"".join(pair.fork.lines())
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "what-if.jsonl").write_bytes(lines)
    (directory / "what-if.messages.jsonl").write_bytes(b"".join(tap.lines()))
    outcome = pair.fork.outcome
    found = Fork(
        change_text(pair.change), pair.same, outcome.problems, outcome.virtual_ms, sha256(lines).hexdigest()
    )  # fmt: skip
    print_line(msgspec.json.encode(found).decode())


def what_if(asked: Asked, out: Path | None, futures: int, play_futures: PlayFutures) -> None:
    """Play the run and its fork, and print the comparison; with `out`, write both as one HTML file.

    With `futures`, also count the outcomes of that many futures, which `play_futures` plays.

    Raises BadChange, and NoPage if the page is not installed.
    """
    from zabka.cli.forked_pair import play
    from zabka.simulation.engine.garbage import seldom_collected
    from zabka.simulation.engine.tap import MessageTap

    taps = [] if out is None else [MessageTap(), MessageTap()]
    with seldom_collected():
        pair = play(asked, taps or (None, None))
    for line in report(asked, pair):
        print_line(line)
    if futures:
        for line in _futures(asked, pair, futures, play_futures):
            print_line(line)
    if out is not None:
        _write(out, _page(asked, pair, taps))


@contextmanager
def _players(master: str | None, jobs: int | None) -> Iterator[PlayFutures]:
    """Yield the function that plays futures: in local processes, or in Spark tasks if `master` is given."""
    from zabka.cli.futures import play_futures

    if master is None:
        yield partial(play_futures, jobs=jobs or os.cpu_count() or 1)
        return
    from zabka.cli.spark_futures import spark_futures

    with spark_futures(master) as play:
        yield play


def _over_time(asked: Asked, every: str, futures: int, play: PlayFutures, *, as_json: bool) -> None:
    """Print how likely a loss was at each moment of the run; as JSON, the whole plot after each.  Raises BadChange."""
    from zabka.cli.forked_pair import BadChange, time_us
    from zabka.cli.outcome_course import outcome_course, plots
    from zabka.simulation.engine.garbage import seldom_collected

    every_us = time_us("--every", every)
    if every_us < EVERY_US_MIN:
        raise BadChange(f"--every {every}: at least {EVERY_US_MIN / 1_000_000:g} s is wanted")
    with seldom_collected():
        for line in (plots if as_json else outcome_course)(asked, every_us, futures, play):
            print_line(line)
            sys.stdout.flush()


def _live(question: LiveQuestion, on: str | None, token_file: Path | None, state: str | None, *, as_json: bool) -> None:
    """Print the forecast of a running cluster, or of a state in a file."""
    from zabka.agent.token_file import BadToken, read_token
    from zabka.cli.live_what_if import NoForecast, forecast_on, forecast_state

    try:
        if state is not None:
            forecast_state(state, question, as_json=as_json)
        elif on is not None:
            token = None if token_file is None else read_token(token_file)
            forecast_on(on, token, question, as_json=as_json)
    except (NoForecast, BadToken, OSError) as reason:
        fail(reason, USAGE)


def _question(kill: Sequence[str], acks: str, budget: str, jobs: int | None, futures: int) -> LiveQuestion:
    """Return the question about a live cluster.  Raises BadChange."""
    from zabka.cli.forked_pair import BadChange, time_us
    from zabka.cli.live_what_if import ACKS, BUDGETS_S, LiveQuestion

    if len(kill) != 1:
        raise BadChange("--kill is missing: name the one node that dies, such as --kill broker-2")
    if acks not in ACKS:
        raise BadChange(f"--acks {acks}: all or 1 is wanted")
    budget_s, (least_s, most_s) = time_us("--budget", budget) / 1_000_000, BUDGETS_S
    if not least_s <= budget_s <= most_s:
        raise BadChange(f"--budget {budget}: a time from {least_s:g} to {most_s:g} s is wanted")
    return LiveQuestion(kill[0], acks, budget_s, jobs, futures)


Seed = Annotated[int | None, typer.Option(min=0, envvar="ZABKA_SEED", help="The seed to play")]
Scenario = Annotated[
    str, typer.Option(envvar="ZABKA_SCENARIO", help="Faults of the seed, as in `zabka simulate`, without scripts")
]
At = Annotated[
    str | None,
    typer.Option(
        envvar="ZABKA_AT",
        help="Moment of the change in the world's time, such as 12.3s; --without has one of its own",
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(metavar="FAULT", envvar="ZABKA_WITHOUT", help="Leave this fault out, such as f3 of the journal"),
]
Kill = Annotated[list[str] | None, typer.Option(metavar="NODE", envvar="ZABKA_KILL", help="Kill this node")]
Pause = Annotated[list[str] | None, typer.Option(metavar="NODE", envvar="ZABKA_PAUSE", help="Pause this node")]
For = Annotated[str, typer.Option("--for", envvar="ZABKA_FOR", help="Time for which nodes are killed or paused")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        envvar="ZABKA_SET",
        help="A setting that Kafka can change in running brokers; without --at, any setting, from the start",
    ),
]
Futures = Annotated[
    int,
    typer.Option(min=0, max=10_000, envvar="ZABKA_FUTURES", help="Also count the outcomes of that many futures"),
]
Every = Annotated[
    str | None,
    typer.Option(
        envvar="ZABKA_EVERY",
        help="With --futures: count the futures of moments this far apart, from --at to the first loss or the end",
    ),
]
Jobs = Annotated[
    int | None, typer.Option(min=1, envvar="ZABKA_JOBS", help="Number of processes; by default one per core")
]
Master = Annotated[
    str | None,
    typer.Option(help="Any Spark master, such as spark://host:7077, which plays the futures of a seed as tasks"),
]
Out = Annotated[
    Path | None, typer.Option(envvar="ZABKA_OUT", help="HTML file for both runs; it opens with their comparison")
]
On = Annotated[
    str | None,
    typer.Option(metavar="URL", envvar="ZABKA_ON", help="In place of a seed: ask the running cluster with this API"),
]
TokenFile = Annotated[
    Path | None, typer.Option(envvar="ZABKA_TOKEN_FILE", help="With --on: file with the token of the API")
]
State = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", envvar="ZABKA_STATE", help="In place of a seed: a cluster's state; - for standard input"
    ),
]
Acks = Annotated[str, typer.Option(envvar="ZABKA_ACKS", help="With --on or --state: acks of the producers, all or 1")]
Budget = Annotated[str, typer.Option(envvar="ZABKA_BUDGET", help="With --on or --state: time in which futures begin")]
AsJson = Annotated[
    bool, typer.Option("--json", envvar="ZABKA_JSON", help="With --on, --state or --every: print the answer as JSON")
]
Journals = Annotated[
    Path | None,
    typer.Option(metavar="DIR", envvar="ZABKA_JOURNALS", help="Only write the fork's journal and messages here"),
]


def command(
    seed: Seed = None,
    scenario: Scenario = "chaos",
    at: At = None,
    without: Without = None,
    kill: Kill = None,
    pause: Pause = None,
    for_: For = "10s",
    set_: Set = None,
    futures: Futures = 0,
    every: Every = None,
    jobs: Jobs = None,
    master: Master = None,
    out: Out = None,
    on: On = None,
    token_file: TokenFile = None,
    state: State = None,
    acks: Acks = "all",
    budget: Budget = "8s",
    as_json: AsJson = False,
    journals: Journals = None,
) -> None:
    """Play a seed with a change from a moment on, or forecast the death of a running cluster's node."""
    from zabka.api.exports.document import NoPage
    from zabka.cli.forked_pair import Asked, BadChange, dynamic, fault_id, from_start, lasts_ms_of, time_us, world_of
    from zabka.simulation.settings import BadSetting

    try:
        if (seed is not None) + (on is not None) + (state is not None) != 1:
            raise BadChange("give either a seed (--seed) or a running cluster (--on) or its state (--state)")
        if seed is None:
            given = (at, without, pause, set_, every, master, out, journals)
            if any(each is not None for each in given):
                raise BadChange("--at, --without, --pause, --set, --every, --master, --out, --journals are for a seed")
            _live(_question(kill or (), acks, budget, jobs, futures), on, token_file, state, as_json=as_json)
            return
        check_output(out)
        asked = Asked(
            seed, scenario, world_of(scenario), None if at is None else time_us("--at", at),
            tuple(map(fault_id, without or ())), tuple(kill or ()), pause=tuple(pause or ()),
            settings_at=dynamic(set_ or ()) if at else from_start(scenario, set_ or ()), lasts_ms=lasts_ms_of(for_),
        )  # fmt: skip
        if at is None and (kill or pause or not (without or set_)):
            raise BadChange("--at is missing: the moment from which the fork differs, such as --at 12.3s")
        if futures and at is None:
            raise BadChange("--at is missing: the moment from which the futures differ, such as --at 12.3s")
        if master is not None and (jobs is not None or not futures):
            raise BadChange("--master plays the --futures as Spark tasks: give --futures, and leave --jobs out")
        if futures and without:
            raise BadChange("--futures draw faults of their own, so --without has no fault to leave out")
        if every is not None:
            if not futures or kill or pause or set_ or out or journals:
                raise BadChange("--every needs --at and --futures, and cannot be combined with a change or a file")
            with _players(master, jobs) as play:
                _over_time(asked, every, futures, play, as_json=as_json)
            return
        if journals is not None:
            write_fork(asked, journals)
            return
        with _players(master, jobs) as play:
            what_if(asked, out, futures, play)
    except (OSError, BadChange, BadSetting, NoPage) as reason:
        fail(reason, USAGE)
