"""`zabka what-if`: rerun a seed with a change from a given moment on, or forecast the death of a live node."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from zabka.cli.failure import fail
from zabka.cli.option_groups import NotGrouped, OrderedCommand, grouped, order_of
from zabka.cli.output_file import check_output
from zabka.cli.simulate import USAGE, print_line

if TYPE_CHECKING:
    from zabka.cli.damage import Figure
    from zabka.cli.forked_pair import Asked, AskedChange, Pair
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


def changes_text(changes: Sequence[Change]) -> str:
    """Return a phrase that describes the changes of a fork."""
    return ", then ".join(map(change_text, changes))


def command_of(asked: Asked, changes: Sequence[Change]) -> str:
    """Return the command that plays the seed with these changes."""
    from zabka.simulation.fork import options

    verb = ["what-if", "--seed", str(asked.seed), "--scenario", asked.scenario]
    replay = ["replay", *verb[1:]]
    return shlex.join(["zabka", *(verb if changes else replay), *options(changes)])


def report(asked: Asked, pair: Pair) -> Iterator[str]:
    """Yield the lines of the report that compares the run with its fork."""
    from zabka.cli.damage import figures
    from zabka.journal.sentence_file import read_sentences
    from zabka.simulation.fork import settings_after

    *before, change = pair.changes
    sentences = read_sentences()
    of = ":" if pair.changes[0].started_with else ","
    yield f"seed {asked.seed} of {asked.scenario}{of} {'; '.join(map(_since, pair.changes))}"
    if pair.same == len(pair.run.entries) == len(pair.fork.entries):
        yield f"the two runs are identical, byte for byte: {pair.same:,} events"
    else:
        until = "" if change.started_with else ", up to then"
        yield f"identical, byte for byte{until}: the first {pair.same:,} events"
        yield from ("", "the first events that differ")
        for name, run in ((AS_IT_WAS, pair.run), (WHAT_IF, pair.fork)):
            for entry in run.entries[pair.same : pair.same + SHOWN]:
                yield f"  {name:9}  {_event(entry, sentences)}"
        yield from _decisive(pair, sentences)
        both = [
            figures(run, change.at_us, settings_after(asked.settings, changes), sentences)
            for run, changes in ((pair.run, before), (pair.fork, pair.changes))
        ]
        yield ""
        yield from _table(*both)
        yield from _causes(*both)
    yield from ("", f"the command that repeats it: {command_of(asked, pair.changes)}")


def _since(change: Change) -> str:
    from zabka.cli.damage import seconds

    return f"{'' if change.started_with else f'from {seconds(change.at_us)} on: '}{change_text(change)}"


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
    from zabka.api.exports.played import ForkedPlay, forked_runs

    plays = [
        ForkedPlay(run, tap, changes_text(changes) if changes else "", command_of(asked, changes))
        for run, tap, changes in zip((pair.run, pair.fork), taps, (pair.changes[:-1], pair.changes), strict=True)
    ]
    runs = forked_runs(asked.scenario, plays)
    return page_of(runs, runs[1].about.id, "compare").encode()


def _write(out: Path, page: bytes) -> None:
    try:
        out.write_bytes(page)
    except OSError as reason:
        fail(reason, USAGE)
    print_line(f"{out}: {len(page) / 1_000_000:.2f} MB", error=True)


def _futures(asked: Asked, pair: Pair, count: int, play: PlayFutures) -> Iterator[str]:
    """Yield the lines of a table that compares futures of the run, and of the fork if there is a change.

    Each future continues from the time of the last change with other random numbers.
    """
    from zabka.cli.damage import seconds
    from zabka.cli.futures import History, hash_before, numbered, table
    from zabka.simulation.fork import Change

    *before, last = pair.changes
    at_us = last.at_us
    history = History(asked.seed, asked.scenario, asked.settings, pair.run.seed.drawn)
    columns = [
        (change_text(each), play(history, numbered((*before, each), count)))
        for each in (Change(at_us), *([] if last.is_empty else [last]))
    ]
    same = hash_before(pair.run, at_us)
    assert all(future.before == same for _, column in columns for future in column), "please report this"
    yield from ("", f"{count} futures, in which the world draws other random numbers from {seconds(at_us)} on")
    yield from table(columns)


class Fork(msgspec.Struct, frozen=True):
    """Result of a fork, as JSON for other programs."""

    change: str
    """The changes in words."""
    changes: list[Change]
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
        changes_text(pair.changes), [*pair.changes], pair.same, outcome.problems, outcome.virtual_ms,
        sha256(lines).hexdigest(),
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
    list[str] | None,
    typer.Option(
        metavar="TIME", envvar="ZABKA_AT",
        help="Moment of the change in the world's time, such as 12.3s, or start; --without has one of its own. Each "
        "further --at begins another change, which has the options after it",
    ),
]  # fmt: skip
Without = Annotated[
    list[str] | None,
    typer.Option(metavar="FAULT", envvar="ZABKA_WITHOUT", help="Leave this fault out, such as f3 of the journal"),
]
Kill = Annotated[list[str] | None, typer.Option(metavar="NODE", envvar="ZABKA_KILL", help="Kill this node")]
Pause = Annotated[list[str] | None, typer.Option(metavar="NODE", envvar="ZABKA_PAUSE", help="Pause this node")]
For = Annotated[
    list[str] | None,
    typer.Option(
        "--for", metavar="TIME", envvar="ZABKA_FOR", help="Time for which nodes are killed or paused [default: 10s]"
    ),
]
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
        help="With --futures: count the futures of moments this far apart, from the first --at to the first loss or "
        "the end",
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


_LASTS = "10s"
_OPTIONS = {"for_": "--for", "set_": "--set"}
"""Options whose parameters have other names."""


def _asked(seed: int, scenario: str, order: Sequence[str], given: Mapping[str, Sequence[str] | None]) -> Asked:
    """Return the seed and its changes, of which `given` has the options by parameter.  Raises BadChange, BadSetting."""
    from zabka.cli.forked_pair import Asked, BadChange, world_of

    try:
        groups = grouped(order, "at", {name: values or () for name, values in given.items()})
    except NotGrouped as reason:
        option = _OPTIONS.get(str(reason), f"--{reason}")
        raise BadChange(
            f"{option}: if there are several --at, give each option of a change after its --at, none in the environment"
        ) from None
    world = world_of(scenario)
    return Asked(seed, scenario, world, tuple(_asked_change(scenario, each) for each in groups))


def _asked_change(scenario: str, given: Mapping[str, Sequence[str]]) -> AskedChange:
    """Return a change as its options specify it.  Raises BadChange, BadSetting."""
    from zabka.cli.forked_pair import AskedChange, BadChange, dynamic, fault_id, from_start, lasts_ms_of, time_us
    from zabka.simulation.fork import START

    at = next((each for each in given["at"] if each != START), None)
    if at is None and (given["kill"] or given["pause"] or not (given["without"] or given["set_"])):
        if given["at"]:
            raise BadChange("--at start: give --set or --without; a node dies or pauses at a time, such as --at 0s")
        raise BadChange("--at is missing: the moment from which the fork differs, such as --at 12.3s")
    return AskedChange(
        None if at is None else time_us("--at", at),
        tuple(map(fault_id, given["without"])),
        tuple(given["kill"]),
        tuple(given["pause"]),
        from_start(scenario, given["set_"]) if at is None else dynamic(given["set_"]),
        lasts_ms_of([_LASTS, *given["for_"]][-1]),
    )


def command(
    ctx: typer.Context,
    seed: Seed = None,
    scenario: Scenario = "chaos",
    at: At = None,
    without: Without = None,
    kill: Kill = None,
    pause: Pause = None,
    for_: For = None,
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
    from zabka.cli.forked_pair import BadChange
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
        changes = {"at": at, "without": without, "kill": kill, "pause": pause, "for_": for_, "set_": set_}
        asked = _asked(seed, scenario, order_of(ctx), changes)
        last = asked.changes[-1]
        if master is not None and (jobs is not None or not futures):
            raise BadChange("--master plays the --futures as Spark tasks: give --futures, and leave --jobs out")
        if every is not None:
            if not futures or out or journals:
                raise BadChange("--every needs --at and --futures, and cannot be combined with a file")
            with _players(master, jobs) as play:
                _over_time(asked, every, futures, play, as_json=as_json)
            return
        if futures and last.at_us is None:
            raise BadChange("--at is missing: the moment from which the futures differ, such as --at 12.3s")
        if futures and last.without:
            raise BadChange("--futures draw faults of their own, so --without has no fault to leave out")
        if journals is not None:
            write_fork(asked, journals)
            return
        with _players(master, jobs) as play:
            what_if(asked, out, futures, play)
    except (OSError, BadChange, BadSetting, NoPage) as reason:
        fail(reason, USAGE)


command_class = OrderedCommand
"""The class of the command, which needs the order of its options."""
