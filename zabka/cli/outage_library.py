"""Implementation of `zabka scenarios`: lists the outage library and runs its scripts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from zabka.cli.output_file import check_two_outputs
from zabka.cli.piped_console import print_table
from zabka.ensemble.close_names import did_you_mean
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.scenarios.library import LIBRARY, configured, play, seeded
from zabka.simulation.scenarios.report import description, replay_command, report
from zabka.simulation.scenarios.scenario import AnyScenario, StepTaken, Verdict, WorldScenario, decode_scenario
from zabka.simulation.scenarios.story import story
from zabka.simulation.scenarios.subjects import SUBJECTS
from zabka.simulation.settings import BadSetting

USAGE = 2
STANDARD_INPUT = "-"


def _refuse(reason: str) -> int:
    sys.stderr.write(reason + "\n")
    return USAGE


class PlayOptions(msgspec.Struct, frozen=True):
    """Options for running scenarios: a seed, settings that override a scenario's settings, and what to print."""

    seed: int | None = None
    settings: tuple[str, ...] = ()
    as_json: bool = False
    with_story: bool = False
    out: Path | None = None
    messages: Path | None = None
    journals: Path | None = None


AS_THEY_ARE = PlayOptions()


class Player(Protocol):
    """Interface for running scenarios outside the simulated world, for example on live clusters."""

    def unplayable(self, scenario: AnyScenario) -> str | None:
        """Return why this player cannot run the scenario; None if it can."""
        ...

    def play(self, scenario: AnyScenario) -> Verdict:
        """Run the scenario and return its verdict."""
        ...


def list_all(
    as_json: bool, elsewhere: Player, running: Callable[[AnyScenario], str | None], subject: str | None = None
) -> int:
    """Print one line for each scenario, which also states whether the player `elsewhere` can run the scenario.

    `running` returns the reason why a scenario cannot run on a running cluster, or None if it can. With a `subject`,
    print only the scenarios that have it.
    """
    if subject is not None and subject not in SUBJECTS:
        return _refuse(f"there is no subject {subject!r}; subjects are {', '.join(SUBJECTS)}")
    listed = [each for each in LIBRARY.values() if subject is None or subject in each.subjects]
    if as_json:
        found = [description(each, elsewhere.unplayable(each), running(each)) for each in listed]
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return 0
    columns = ("name", "subjects", "what went wrong", "why zabka passes", "fixed upstream in", "--live")
    rows = (
        (
            each.name, ", ".join(each.subjects), each.title, each.hypothesis, each.fixed,
            "" if elsewhere.unplayable(each) else "yes",
        )
        for each in listed
    )  # fmt: skip
    print_table(columns, rows)
    return 0


def found_scenario(name: str) -> AnyScenario:
    """Load a scenario from the library, from a file, or from standard input (`-`). Raises ValueError."""
    if name in LIBRARY:
        return LIBRARY[name]
    if name == STANDARD_INPUT or name.endswith(".json"):
        try:
            return decode_scenario(sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes())
        except (OSError, msgspec.DecodeError) as reason:
            raise ValueError(f"{name} holds no scenario: {reason}") from None
    raise ValueError(
        f"there is no scenario {name!r}{did_you_mean(name, LIBRARY)}; `zabka scenarios list` names them, and a file's "
        "name ends in .json"
    )


def print_step(step: StepTaken) -> None:
    """Print a step of a script that begins on a running cluster."""
    sys.stdout.write(f"{step.at_ms / 1000:9.3f} s  {step.text}\n")
    sys.stdout.flush()


def print_json_step(step: StepTaken) -> None:
    """Print a step of a script that begins on a running cluster, as one line of JSON."""
    sys.stdout.write(
        msgspec.json.encode({"step": step.entries, "at_ms": step.at_ms, "text": step.text}).decode() + "\n"
    )
    sys.stdout.flush()


class _Simulated:
    def unplayable(self, scenario: AnyScenario) -> str | None:
        return None

    def play(self, scenario: AnyScenario) -> Verdict:
        return play(scenario)


class _Tapped(_Simulated):
    """Runs scenarios in simulated worlds, and records the messages that `--out` writes.

    If a scenario has an injected bug, these are the messages of the run with the bug.
    """

    def __init__(self) -> None:
        self.taps: list[MessageTap] = []

    def unplayable(self, scenario: AnyScenario) -> str | None:
        return None if isinstance(scenario, WorldScenario) else "scenarios of the bare protocol have no messages"

    def play(self, scenario: AnyScenario) -> Verdict:
        shown, other = MessageTap(), MessageTap()
        self.taps.append(shown)
        has_outage = isinstance(scenario, WorldScenario) and scenario.shows
        return play(scenario, other, shown) if has_outage else play(scenario, shown)


class _WithEverything(_Simulated):
    """Runs scenarios in simulated worlds, and records the messages of both runs, with and without the injected bug."""

    def __init__(self) -> None:
        self.taps: dict[str, tuple[MessageTap, MessageTap]] = {}

    def play(self, scenario: AnyScenario) -> Verdict:
        if not isinstance(scenario, WorldScenario):
            return play(scenario)
        self.taps[scenario.name] = taps = (MessageTap(), MessageTap())
        return play(scenario, *taps)

    def write(self, verdicts: list[Verdict], directory: Path) -> None:
        """Write the journal and the messages of each run to separate files."""
        for verdict in verdicts:
            taps = self.taps.get(verdict.name, (None, None))
            for name, played, tap in (
                (verdict.name, verdict, taps[0]), (f"{verdict.name}.bug", verdict.shown, taps[1])
            ):  # fmt: skip
                if played is not None:
                    _write_lines(directory / f"{name}.jsonl", [played.lines()])
                if played is not None and tap is not None:
                    _write_lines(directory / f"{name}.messages.jsonl", [tap.lines()])


def run(names: list[str], player: Player | None, options: PlayOptions = AS_THEY_ARE) -> int:
    """Run scenarios, in the simulated world unless another player is given, and return the exit code.

    The code is 0 if each verdict is the expected one, 1 otherwise, 2 for invalid arguments.
    """
    tapped = _Tapped() if options.messages is not None else None
    everything = _WithEverything() if options.journals is not None else None
    there = player or tapped or everything or _Simulated()
    if player is not None and tapped is not None:
        return _refuse("--messages records a simulated world; real processes record their own messages")
    if everything is not None and (player is not None or tapped is not None):
        return _refuse("--journals writes everything of a simulated world: use it without --messages and --live")
    if player is not None and options.seed is not None:
        return _refuse("--seed sets the delays of a simulated world and has no effect on real processes")
    try:
        found = [found_scenario(name) for name in names] or [s for s in LIBRARY.values() if not there.unplayable(s)]
        scenarios = [_configured(scenario, options) for scenario in found]
        _check_outputs(options)
    except (ValueError, BadSetting, OSError) as reason:
        return _refuse(str(reason))
    for scenario in scenarios:
        obstacle = there.unplayable(scenario)
        if obstacle is not None:
            return _refuse(f"{scenario.name}: {obstacle}" + ("; run it --simulated" if player is not None else ""))
    verdicts, reports = [], []
    for scenario in scenarios:
        verdict = there.play(scenario)
        verdicts.append(verdict)
        again = replay_command(scenario.name, options.seed, options.settings)
        if options.as_json:
            reports.append(report(scenario, verdict, again))
        else:
            _print_results(scenario, verdict, again, with_story=options.with_story)
    try:
        if options.out is not None:
            # Write the run with the injected bug, if there is one.
            _write_lines(options.out, ((verdict.shown or verdict).lines() for verdict in verdicts))
        if options.messages is not None and tapped is not None:
            _write_lines(options.messages, (tap.lines() for tap in tapped.taps))
        if options.journals is not None and everything is not None:
            everything.write(verdicts, options.journals)
    except OSError as reason:
        return _refuse(str(reason))
    broken = sum(not verdict.held for verdict in verdicts)
    if options.as_json:
        whole = {"scenarios": len(verdicts), "violated": broken, "runs": reports}
        sys.stdout.write(msgspec.json.encode(whole).decode() + "\n")
    else:
        sys.stdout.write(f"{len(verdicts)} scenarios, {broken} with violations\n")
    return 1 if broken else 0


def _check_outputs(options: PlayOptions) -> None:
    """Raise OSError if an output file cannot be written, or OneForTwo if both outputs name the same file."""
    check_two_outputs(options.out, options.messages)
    if options.journals is not None:
        options.journals.mkdir(parents=True, exist_ok=True)


def _configured(scenario: AnyScenario, options: PlayOptions) -> AnyScenario:
    return configured(scenario if options.seed is None else seeded(scenario, options.seed), options.settings)


def _print_results(scenario: AnyScenario, verdict: Verdict, again: str, *, with_story: bool) -> None:
    sys.stdout.write(f"{scenario.name}: {'held' if verdict.held else 'VIOLATED'}: {scenario.hypothesis}\n")
    for problem in verdict.problems:
        sys.stdout.write(f"  {problem}  replay: {again}\n")
    if with_story:
        sys.stdout.writelines(f"{line}\n" for line in story(verdict))
    _print_outage(scenario, verdict)
    if with_story and verdict.shown is not None:
        sys.stdout.writelines(f"{line}\n" for line in story(verdict.shown))
    sys.stdout.flush()


def _print_outage(scenario: AnyScenario, verdict: Verdict) -> None:
    """Print the result of the run with the scenario's injected bug."""
    if verdict.shown is not None and isinstance(scenario, WorldScenario):
        switched = " ".join(f"{key}={value}" for key, value in scenario.bug.items()) or "operator action"
        sys.stdout.write(f"  with {switched}:\n")
        for problem in verdict.shown.problems:
            sys.stdout.write(f"    {problem}\n")


def _write_lines(out: Path, plays: Iterable[Iterable[bytes]]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as file:
        for lines in plays:
            file.writelines(lines)
