"""`zabka replay`: run a seed or a choice sequence again, and write its journal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from zabka.cli.options import Scenario, Settings
from zabka.cli.output_file import OneForTwo, check_output, check_two_outputs
from zabka.cli.simulate import USAGE, configured, import_from_here, print_line
from zabka.simulation.engine.garbage import seldom_collected
from zabka.simulation.settings import BadSetting, world_settings


class Report(msgspec.Struct, frozen=True):
    """Result of a seed's run, as JSON for other programs."""

    seed: int
    scenario: str
    problems: list[str]
    virtual_ms: int
    events: int
    journal_sha256: str


def replay(
    seed: int,
    scenario: str,
    settings: list[str],
    out: Path | None,
    messages: Path | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Run one seed again, write its journal, and its messages if requested; return the exit code.

    The code is 0 if every invariant held, 1 otherwise, 2 for invalid arguments.
    """
    try:
        world = configured(scenario, settings)
    except (ValueError, BadSetting) as reason:
        print_line(str(reason), error=True)
        return USAGE
    from zabka.simulation.engine.tap import MessageTap
    from zabka.simulation.run import has_messages, run_with_journal

    if messages is not None and not has_messages(scenario):
        print_line(f"--messages: {scenario} has no simulated network whose messages could be recorded", error=True)
        return USAGE
    tap = MessageTap() if messages is not None else None
    try:
        check_two_outputs(out, messages)
        with seldom_collected():
            outcome, lines = run_with_journal(seed, scenario, world, tap)
        digest = _write(lines, out)
        if tap is not None:
            _write(tap.lines(), messages)
    except BrokenPipeError:
        raise
    except (OSError, OneForTwo) as reason:
        print_line(str(reason), error=True)
        return USAGE
    if as_json:
        report = Report(seed, scenario, outcome.problems, outcome.virtual_ms, outcome.events, digest)
        print_line(msgspec.json.encode(report).decode())
    for problem in outcome.problems:
        print_line(f"seed {seed}: {problem}", error=True)
    where = f" in {out}" if out else ""
    print_line(
        f"seed {seed}: {outcome.events} events{where}, {outcome.virtual_ms / 1000:.1f} simulated seconds in "
        f"{outcome.wall_s:.2f} s, sha256 {digest}",
        error=True,
    )
    return 0 if outcome.held else 1


def replay_choices(path: Path, out: Path | None, *, as_story: bool) -> int:
    """Run the choice sequence in a file, and write the run's journal or print its story; return the exit code.

    The code is 0 if every invariant held, 1 otherwise, 2 if the file is not valid.
    """
    from zabka.simulation.scenarios.story import story
    from zabka.simulation.search.choice_search import injected
    from zabka.simulation.search.choices_file import read_choices
    from zabka.simulation.search.runs import play_choices

    try:
        file = read_choices(path)
        check_output(out)
        import_from_here()
        with injected(file.injected_bug), seldom_collected():
            verdict = play_choices(file.choices, file.scenario, world_settings(file.settings))
    except (OSError, ValueError, BadSetting) as reason:
        print_line(f"{path}: {reason}", error=True)
        return USAGE
    if as_story:
        for line in story(verdict):
            print_line(str(line))
    try:
        digest = _write(verdict.lines(), out) if out is not None or not as_story else ""
    except BrokenPipeError:
        raise
    except OSError as reason:
        print_line(str(reason), error=True)
        return USAGE
    for problem in verdict.problems:
        print_line(f"violated: {problem}", error=True)
    named = f", sha256 {digest}" if digest else ""
    print_line(
        f"{path}: {len(verdict.journal)} events, {verdict.virtual_ms / 1000:.1f} simulated seconds{named}", error=True
    )
    return 0 if verdict.held else 1


def _write(lines: Iterable[bytes], out: Path | None) -> str:
    """Write the journal to the file `out`, or to standard output. Return the journal's hash."""
    digest = sha256()
    if out is None:
        for line in lines:
            digest.update(line)
            sys.stdout.buffer.write(line)
        sys.stdout.flush()
        return digest.hexdigest()
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as file:
        for line in lines:
            digest.update(line)
            file.write(line)
    return digest.hexdigest()


def command(
    choices: Annotated[
        Path | None, typer.Argument(help="A choice sequence found by `zabka search`, instead of a seed")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, envvar="ZABKA_SEED", help="The seed to replay")] = None,
    scenario: Scenario = "chaos",
    set_: Settings = None,
    out: Annotated[
        Path | None, typer.Option(envvar="ZABKA_OUT", help="File for the journal, instead of stdout")
    ] = None,
    messages: Annotated[
        Path | None,
        typer.Option(envvar="ZABKA_MESSAGES", help="File for every message of the seed's world, one per line"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", envvar="ZABKA_JSON", help="With --seed and --out: print the result as JSON")
    ] = False,
    story: Annotated[
        bool,
        typer.Option(
            "--story", envvar="ZABKA_STORY", help="With a choice sequence: print its faults and their effects"
        ),
    ] = False,
) -> None:
    """Replay a seed, or a choice sequence of a search, byte-identical every time, and write its journal."""
    if (choices is None) == (seed is None):
        print_line("zabka replay takes either --seed or the file of a choice sequence", error=True)
        raise typer.Exit(USAGE)
    if choices is not None and messages is not None:
        print_line("--messages works with --seed, not with a choice sequence", error=True)
        raise typer.Exit(USAGE)
    if seed is not None and story:
        print_line("--story works with a choice sequence or with `zabka scenarios run`, not with a seed", error=True)
        raise typer.Exit(USAGE)
    if choices is not None and set_:
        print_line("--set: a choice sequence contains its own settings", error=True)
        raise typer.Exit(USAGE)
    if as_json and (choices is not None or out is None):
        print_line(
            "--json needs --seed and --out: without --out the journal goes to stdout, as the JSON does", error=True
        )
        raise typer.Exit(USAGE)
    if choices is not None:
        raise typer.Exit(replay_choices(choices, out, as_story=story))
    assert seed is not None
    raise typer.Exit(replay(seed, scenario, set_ or [], out, messages, as_json=as_json))
