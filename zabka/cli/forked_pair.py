"""Plays a seed unchanged, and a fork of it, or a fork and a fork of that fork (`zabka what-if`).

The fork differs from a chosen moment on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zabka.journal.events import FaultInjected
    from zabka.simulation.engine.tap import MessageTap
    from zabka.simulation.fork import Change
    from zabka.simulation.run import ForkedRun
    from zabka.simulation.settings import WorldSettings

LISTED = 8
LASTS_S_MAX = 60
"""Maximum time for which a node is killed or paused.

It must be well below 120 s, the time for which a run waits until the cluster has recovered.
"""
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*s?")
_FAULT = re.compile(r"(?:fault-|f)?([1-9]\d{0,8})")


class BadChange(Exception):
    """A change that the run cannot have. The message is the reason."""


class AskedChange(NamedTuple):
    """A change as its options specify it.  Only the run shows whether the change is possible."""

    at_us: int | None = None
    """None for settings from the start on, or for the time of the fault that is left out."""
    without: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}
    """Dynamic configuration from `at_us` on, or if that is None, settings from the start on."""
    lasts_ms: int = 10_000


class Asked(NamedTuple):
    """The seed to fork, and the changes of the fork, in the order of their times."""

    seed: int
    scenario: str
    settings: WorldSettings | None
    """Settings of the world; None if the scenario draws all of them."""
    changes: tuple[AskedChange, ...]


class Pair(NamedTuple):
    """A run, its fork, and the first difference between their journals.

    If the fork has several changes, the run has all of them except the last one.
    """

    run: ForkedRun
    fork: ForkedRun
    changes: tuple[Change, ...]
    """The changes of the fork."""
    same: int
    """Number of events before the first difference."""


def time_us(name: str, text: str) -> int:
    """Parse a number of seconds, such as 12.3s, as microseconds.  Raises BadChange."""
    match = _SECONDS.fullmatch(text.strip())
    if match is None:
        raise BadChange(f"{name} {text}: a time in seconds is wanted, such as 12.3s")
    return round(float(match[1]) * 1_000_000)


def fault_id(text: str) -> str:
    """Parse the id of a fault.  Raises BadChange."""
    match = _FAULT.fullmatch(text)
    if match is None:
        raise BadChange(f"--without {text}: the id of a fault is wanted, such as f3 or fault-3")
    return f"f{match[1]}"


def dynamic(settings: Sequence[str]) -> dict[str, str]:
    """Return the settings that can change at a moment.  Raises BadChange and BadSetting."""
    from zabka.simulation.fork import check_setting

    found: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise BadChange(f"--set takes KEY=VALUE; got {setting!r}")
        check_setting(key, value)
        found[key] = value
    return found


def from_start(scenario: str, settings: Sequence[str]) -> dict[str, str]:
    """Return the settings with which a fork of the scenario is played from the start.  Raises BadChange, BadSetting."""
    from zabka.simulation.seeds.chaos import check_played
    from zabka.simulation.settings import world_settings

    if settings and world_of(scenario) is None:
        raise BadChange(f"{scenario} draws its settings from the seed; change a setting with --at, at a moment")
    found = {key: value for key, _, value in (setting.partition("=") for setting in settings)}
    check_played(scenario, world_settings(settings), found)
    return found


def lasts_ms_of(text: str) -> int:
    """Parse the time for which a node is killed or paused.  Raises BadChange."""
    lasts_ms = time_us("--for", text) // 1000
    if not 0 < lasts_ms <= LASTS_S_MAX * 1000:
        raise BadChange(f"--for {text}: a time of at most {LASTS_S_MAX} s is wanted, because the run must recover")
    return lasts_ms


def world_of(scenario: str) -> WorldSettings | None:
    """Return the settings of a scenario's world, or None if the scenario chooses them at random.

    Raises BadChange if there is no such scenario.
    """
    from zabka.simulation.run import SCENARIOS, SEARCHED
    from zabka.simulation.settings import WorldSettings

    if scenario not in SEARCHED:
        raise BadChange(f"{scenario} is no scenario that draws its faults from a seed; there are {', '.join(SEARCHED)}")
    return WorldSettings() if scenario in SCENARIOS else None


def play(asked: Asked, taps: Sequence[MessageTap | None] = (None, None)) -> Pair:
    """Play the run, and its forks with one more change each, of which the last two are the pair.  Raises BadChange.

    Each change is checked in the run that it changes.
    """
    from zabka.simulation.fork import Change
    from zabka.simulation.run import run_forked

    first, *later = asked.changes
    run = run_forked(
        asked.seed, asked.scenario, (Change(first.at_us or 0),), asked.settings, tap=None if later else taps[0]
    )
    made: tuple[Change, ...] = ()
    for place, wanted in enumerate(asked.changes, 1):
        change = _change(asked.scenario, wanted, run, made)
        made = (*made, change)
        # An empty change at the moment of the next one changes nothing, and shows the state of each node there.
        following = tuple(Change(max(change.at_us, each.at_us or 0)) for each in asked.changes[place : place + 1])
        tap = taps[1] if not following else taps[0] if place == len(later) else None
        fork = run_forked(
            asked.seed, asked.scenario, (*made, *following), asked.settings, drawn=run.seed.drawn, tap=tap
        )
        _check_fork(run, fork, made)
        if following:
            run = fork
    return Pair(run, fork, made, _same(run, fork, made[-1].at_us))


def play_fork(asked: Asked) -> tuple[ForkedRun, tuple[Change, ...]]:
    """Play the run, or its fork if there are changes, and return it with these changes.  Raises BadChange."""
    from zabka.simulation.run import run_forked

    for earlier, later in pairwise(each.at_us for each in asked.changes if each.at_us is not None):
        _check_order(earlier, later)
    changes = tuple(each for each in asked.changes if each.without or each.kill or each.pause or each.settings)
    if not changes:
        return run_forked(asked.seed, asked.scenario, (), asked.settings), ()
    pair = play(asked._replace(changes=changes))
    return pair.fork, pair.changes


def _same(run: ForkedRun, fork: ForkedRun, at_us: int) -> int:
    """Return the number of events before the first difference."""
    ours, theirs = run.lines(), fork.lines()
    same = next((place for place, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one != two), None)
    same = min(len(ours), len(theirs)) if same is None else same
    before = sum(entry.mono_us < at_us for entry in run.entries)
    assert same >= before, f"event {same + 1} of the fork differs before {at_us} us: please report this"
    return same


def _change(scenario: str, asked: AskedChange, run: ForkedRun, before: Sequence[Change]) -> Change:
    """Return the change that the user requested, if the run, which has the changes before it, allows it.

    Raises BadChange.
    """
    from zabka.cli.damage import seconds
    from zabka.simulation.fork import RUNNING, Change

    faults = _faults(run)
    missing = [each for each in asked.without if each not in faults]
    if missing:
        raise BadChange(f"no fault of the run is {missing[0]}; there are {_listed(faults, asked.at_us or 0)}")
    started_with = asked.settings if asked.at_us is None else {}
    if asked.at_us is not None or started_with:
        at_us = asked.at_us or 0
    else:
        at_us = min(faults[each][0] for each in asked.without)
    if before:
        _check_order(before[-1].at_us, at_us)
    early = [each for each in asked.without if faults[each][0] < at_us]
    if early:
        raise BadChange(f"{early[0]} was injected at {seconds(faults[early[0]][0])}, before --at {seconds(at_us)}")
    if at_us > run.entries[-1].mono_us:
        raise BadChange(f"--at {seconds(at_us)}: the run ends at {seconds(run.entries[-1].mono_us)}")
    twice = [name for name, count in Counter((*asked.kill, *asked.pause)).items() if count > 1]
    if twice:
        raise BadChange(f"{twice[0]} is named twice: kill or pause a node once")
    for name in (*asked.kill, *asked.pause):
        state = run.nodes.get(name)
        if state is None:
            raise BadChange(f"there is no node {name}; there are {', '.join(run.nodes)}")
        if state != RUNNING:
            raise BadChange(f"{name} is {state} already at {seconds(at_us)}")
    settings_at = {} if started_with else asked.settings
    if settings_at and not any(name.startswith("broker-") for name in run.nodes):
        raise BadChange(f"--set changes the configuration of brokers, and {scenario} has none")
    return Change(
        at_us,
        left_out=asked.without,
        killed=asked.kill,
        paused=asked.pause,
        lasts_ms=asked.lasts_ms,
        settings=settings_at,
        started_with=started_with,
    )


def _check_order(before_us: int, at_us: int) -> None:
    """Raise BadChange if a change lies before the previous one."""
    from zabka.cli.damage import seconds

    if at_us < before_us:
        raise BadChange(
            f"--at {seconds(at_us)} lies before the previous change, at {seconds(before_us)}: give the changes in the "
            "order of their times"
        )


def _faults(run: ForkedRun) -> dict[str, tuple[int, FaultInjected]]:
    """Return the injected faults of a run with their times, by id."""
    from zabka.journal.events import FaultInjected

    return {e.event.fault_id: (e.mono_us, e.event) for e in run.entries if isinstance(e.event, FaultInjected)}


def _listed(faults: dict[str, tuple[int, FaultInjected]], since_us: int) -> str:
    from zabka.cli.damage import seconds

    found = [f"{name} ({seconds(at)} {event.kind} of {event.source})" for name, (at, event) in faults.items()
             if at >= since_us]  # fmt: skip
    more = [f"{len(found) - LISTED} more"] if len(found) > LISTED else []
    return ", ".join([*found[:LISTED], *more]) or "none from then on"


def _check_fork(run: ForkedRun, fork: ForkedRun, changes: Sequence[Change]) -> None:
    """Raise BadChange unless the fork has made all its changes, of which the run lacks the last one."""
    if fork.refused:
        raise BadChange(f"--set: the brokers reject it: {fork.refused}")
    ours, omitted = _faults(run), {each.fault_id: each for each in fork.omitted}
    for name in changes[-1].left_out:
        if name not in omitted:
            known = ours[name][1]
            raise BadChange(
                f"{name} ({known.kind} of {known.source}) cannot be left out: it is a part of another fault"
            )
    expected = {**{name: event for name, (_, event) in ours.items()}, **{each.fault_id: each for each in run.omitted}}
    for name, found in omitted.items():
        known = expected.get(name, found)
        if (found.kind, found.source, found.target) != (known.kind, known.source, known.target):
            raise BadChange(
                f"{name} cannot be left out together with the other changes: after them, it is another fault "
                f"({found.kind} of {found.source})"
            )
