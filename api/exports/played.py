"""Runs to export that the API does not store: simulated scenarios and seeds, and journals on disk."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from zabka.api.exports.recorded import Recorded
from zabka.api.runs.intake import folded, in_order, on_one_clock
from zabka.api.runs.run_models import Run, link_of, seed_title
from zabka.api.runs.world_clock import on_wall_clock
from zabka.api.scenarios.models import variant_label
from zabka.journal.events import Entry
from zabka.journal.messages import Message, read_message
from zabka.journal.reader import decode_line, merge, read_file
from zabka.journal.sightings import Matcher, read_sighting
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.run import ForkedRun, has_messages, run_with_journal
from zabka.simulation.scenarios.decisive import decisive
from zabka.simulation.scenarios.library import play
from zabka.simulation.scenarios.report import replay_command
from zabka.simulation.scenarios.scenario import AnyScenario, Verdict, WorldScenario
from zabka.simulation.settings import WorldSettings

BUG = ".bug"
WHAT_IF = ".what-if"
CLUSTER, JOURNAL = "cluster", "journal"
"""Ids of the exported run: one for a cluster's directory, one for a single journal file."""
_UNKNOWN: dict[str, Any] = {"first_seq": 1, "last_seq": 0, "first_us": 0, "last_us": 0, "events": 0, "created_ms": 0}
"""Placeholders for fields of a run's description that `recorded` fills in. The creation time stays 0, so that equal
runs give equal files.
"""


def recorded(about: Run, entries: Sequence[Entry], messages: Sequence[Message] = ()) -> Recorded:
    """Number the entries of a whole history from 1, and complete the run's description. Raises NoHistory."""
    taken = folded([msgspec.structs.replace(entry, seq=seq) for seq, entry in enumerate(entries, 1)])
    count = len(taken.entries)
    update = {"last_seq": count, "events": count, "first_us": taken.first_us, "last_us": taken.last_us}
    return Recorded(
        about.model_copy(update=update), taken.entries, sorted(messages, key=lambda each: (each.sent_us, each.id))
    )


def scenario_runs(scenario: AnyScenario, seed: int | None = None, settings: Sequence[str] = ()) -> list[Recorded]:
    """Run a scenario. Return the run and, if the scenario has a bug, also the run with the bug.

    `seed` and `settings` only appear in the command that replays the run and in the link to it, because both are
    already applied to `scenario`.
    """
    taps = (MessageTap(), MessageTap()) if isinstance(scenario, WorldScenario) else (None, None)
    verdict = play(scenario, *taps)
    moments = decisive(scenario, verdict)
    name, replay = scenario.name, replay_command(scenario.name, seed, settings)
    about = Run(
        id=name, kind="scenario", title=scenario.title, of=name, pair=None if verdict.shown is None else name + BUG,
        decisive_seq=moments.played, replay=replay, link=None if settings else link_of(name, seed), **_UNKNOWN,
    )  # fmt: skip
    runs = [_scenario_run(about, verdict, taps[0])]
    if verdict.shown is not None:
        label = variant_label(scenario.bug if isinstance(scenario, WorldScenario) else {})
        update = {
            "id": name + BUG, "title": f"{scenario.title}: {label}", "pair": name, "decisive_seq": moments.outage,
            "variant": label, "link": None if settings else link_of(name, seed, with_bug=True),
        }  # fmt: skip
        runs.append(_scenario_run(about.model_copy(update=update), verdict.shown, taps[1]))
    return runs


def _scenario_run(about: Run, verdict: Verdict, tap: MessageTap | None) -> Recorded:
    return _simulated(about, list(verdict.lines()), tap, held=verdict.held)


def _simulated(about: Run, lines: Sequence[bytes], tap: MessageTap | None, *, held: bool) -> Recorded:
    entries = on_one_clock([decode_line(line) for line in lines])
    messages = [] if tap is None else [on_wall_clock(read_message(line)) for line in tap.lines()]
    update = {"verdict": "held" if held else "violated", "sha256": sha256(b"".join(lines)).hexdigest()}
    return recorded(about.model_copy(update=update), entries, messages)


def seed_run(seed: int, scenario: str, settings: WorldSettings | None, replay: str) -> Recorded:
    """Run a seed and return the recorded run. `settings` is None if no settings were given."""
    tap = MessageTap() if has_messages(scenario) else None
    outcome, lines = run_with_journal(seed, scenario, settings, tap)
    about = Run(
        id=f"{scenario}-{seed}", kind="seed", title=seed_title(scenario, seed), of=str(seed), replay=replay,
        link=link_of(scenario, seed) if settings is None else None, **_UNKNOWN,
    )  # fmt: skip
    return _simulated(about, list(lines), tap, held=outcome.held)


class ForkedPlay(NamedTuple):
    """A run of a seed, or a fork, with its messages."""

    run: ForkedRun
    tap: MessageTap
    change: str
    """How it differs from the seed's run; empty for that run."""
    replay: str
    """The command that plays it again."""


def forked_runs(scenario: str, plays: Sequence[ForkedPlay]) -> list[Recorded]:
    """Return a run and its fork as a pair."""
    seed = int(plays[0].run.seed)
    name, lines = f"{scenario}-{seed}", [play.run.lines() for play in plays]
    equal = next((place for place, (one, two) in enumerate(zip(*lines, strict=False)) if one != two), None)
    ids = name, name + WHAT_IF
    found = []
    for own_id, pair, forked, own in zip(ids, reversed(ids), plays, lines, strict=True):
        about = Run(
            id=own_id, kind="seed", title=seed_title(scenario, seed, forked.change), of=str(seed), pair=pair,
            decisive_seq=None if equal is None else equal + 1, variant=forked.change or None, replay=forked.replay,
            link=None if forked.change else link_of(scenario, seed), **_UNKNOWN,
        )  # fmt: skip
        found.append(_simulated(about, own, forked.tap, held=forked.run.outcome.held))
    return found


def journal_run(path: Path) -> Recorded:
    """Return the history of a journal file, or of all journals below a directory, with their messages.

    Raises OSError if nothing can be read, and NoHistory if it is not a history.
    """
    if path.is_file():
        return recorded(_uploaded(JOURNAL, path.name), in_order(list(read_file(path))))
    files = sorted(path.rglob("*.jsonl"))
    entries = merge(entry for file in files if _MESSAGES not in file.name for entry in read_file(file))
    if not entries:
        raise FileNotFoundError(f"there is no journal in {path}")
    return recorded(_uploaded(CLUSTER, path.resolve().name), entries, _messages(files))


def _uploaded(run_id: str, title: str) -> Run:
    return Run(id=run_id, kind="upload", title=title, of=title, **_UNKNOWN)


_MESSAGES = ".messages."


def _messages(files: Sequence[Path]) -> list[Message]:
    """Return the messages in the log files of a cluster. All its nodes run on one host and share a clock."""
    sightings = []
    for file in files:
        if _MESSAGES not in file.name:
            continue
        for line in file.read_bytes().splitlines():
            try:
                sightings.append(read_sighting(line))
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue  # The last line of a killed node may be incomplete.
    matcher = Matcher({sighting.node: "" for sighting in sightings})
    matcher.add(sightings)
    return list(matcher.messages())
