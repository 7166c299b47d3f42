"""Lists scenarios and runs scenarios and seeds for HTTP clients, one run at a time. The last results are stored."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog
from pydantic import TypeAdapter, ValidationError

from zabka.api.http.problems import Problem
from zabka.api.runs.kept import KeptRuns
from zabka.api.runs.origins import ForkChange, Origin
from zabka.api.runs.plays import BUG, NotKept, Play, keep, workspace
from zabka.api.runs.run_models import Run, Verdict, link_of, seed_title
from zabka.api.scenarios.file_models import NewFileRun
from zabka.api.scenarios.models import (
    OF_WHOLE_PROCESSES,
    BegunStep,
    ForkPlay,
    KeptPlays,
    NewFork,
    NewScenarioRun,
    NewSeedRun,
    Scenario,
    ScenarioPlay,
    ScenarioRun,
    SeedPlay,
)
from zabka.api.scenarios.process import PATIENCE_S, PlayerFailed, Watch
from zabka.simulation.fork import START, Change, check_setting, options, options_after
from zabka.simulation.seeds.chaos import check_played
from zabka.simulation.settings import BadSetting, split_settings, world_settings

log = structlog.get_logger()

LIVE_PATIENCE_S = 600.0
"""Maximum duration of a run on a live cluster, where timeouts take real time."""
FILE_PATIENCE_S = 7_200.0
"""Maximum duration of a scenario file on a live cluster: its times are chosen by a user, who can stop it."""
STOPPED = "it was stopped"
INTERRUPTED = "it was ended from outside"
"""Problem that the player reports for a run that is interrupted."""
WAITING_MAX = 10
REMEMBERED_MAX = 30

_LIBRARY = TypeAdapter(list[Scenario])


class Player(Protocol):
    """Runs `zabka` with a subcommand and its arguments, and returns the JSON output. Raises PlayerFailed."""

    async def ask(self, *arguments: str, patience_s: float = PATIENCE_S, watch: Watch | None = None) -> bytes: ...


class Here(NamedTuple):
    """How the scenario process accesses this cluster: the API's URL, and the file with the token if one is required."""

    url: str
    token_file: Path | None = None


class _Queued(NamedTuple):
    """A queued run: a scenario of the library, or a seed if `script` is None."""

    arguments: list[str]
    script: Scenario | None
    keep: bool
    patience_s: float = PATIENCE_S
    original: Run | None = None
    """The stored run of which this run is a fork."""
    feed: bytes = b""
    """The scenario file, if the run is not of the library."""


class ScenarioRuns:
    """Queue of runs for the scenario process, and the results of these runs.

    The results are lost when this process ends. A run that the client asked to store remains among the stored runs.
    """

    def __init__(self, player: Player, kept: KeptRuns, here: Here) -> None:
        self._player = player
        self._kept = kept
        self._here = here
        self._library: dict[str, Scenario] = {}
        self._reading = asyncio.Lock()
        self._runs: dict[str, ScenarioRun] = {}
        self._queue: dict[str, _Queued] = {}
        """The queued runs, oldest first, keyed by id."""
        self._arrived = asyncio.Event()
        self._stops: dict[str, asyncio.Event] = {}
        """Events that stop the runs that are queued or running."""
        self.is_resetting: Callable[[], bool] = lambda: False
        """Whether a reset of this cluster is running: it would interfere with a run on this cluster."""

    async def library(self) -> dict[str, Scenario]:
        """Return every scenario, keyed by name. Raises Problem 503.

        The list is requested from the scenario process only once.
        """
        async with self._reading:
            if not self._library:
                try:
                    found = _LIBRARY.validate_json(await self._player.ask("scenarios", "list", "--json"))
                except (PlayerFailed, ValidationError) as reason:
                    raise Problem(503, f"the outage library cannot be read: {reason}") from None
                self._library = {scenario.name: scenario for scenario in found}
        return self._library

    async def request(self, name: str, requested: NewScenarioRun) -> ScenarioRun:
        """Queue a run of a scenario. Raises Problem: 404, 409 if the queue is full or a reset runs, 422, 503."""
        scenario = (await self.library()).get(name)
        if scenario is None:
            raise Problem(404, f"there is no scenario {name}; GET /api/v1/scenarios lists them")
        _check(scenario, requested)
        arguments = _arguments("scenarios", "run", name, seed=requested.seed, pairs=requested.pairs())
        if requested.live:
            arguments += self._on_this_cluster()
        run = ScenarioRun(
            id=_new_id(), scenario=name, seed=requested.seed, live=requested.live, switches=[*requested.switches],
            settings=requested.settings, state="queued", requested_ms=_now_ms(),
            replay=shlex.join(["zabka", *arguments]),
        )  # fmt: skip
        patience_s = LIVE_PATIENCE_S if requested.live else PATIENCE_S
        return self._enqueue(run, _Queued(arguments, scenario, requested.keep, patience_s))

    def _on_this_cluster(self) -> list[str]:
        token_file = self._here.token_file
        token = [] if token_file is None else ["--token-file", str(token_file)]
        return ["--on", self._here.url, *token]

    def request_file(self, requested: NewFileRun) -> ScenarioRun:
        """Queue a run of a scenario file. Raises Problem: 409 if the queue is full or a reset runs, 422."""
        file = requested.scenario
        if requested.live and requested.keep:
            raise Problem(422, "a live run is not stored separately: leave keep out")
        script = Scenario.model_validate(
            {
                **file.model_dump(include=type(file).model_fields.keys() - {"steps"}),
                "switches": [],
                "live": True,
                "live_obstacle": None,
            }
        )
        words = ["scenarios", "run"]
        where = self._on_this_cluster() if requested.live else []
        # The suffix distinguishes the run from runs of a scenario of the library with the same name.
        name = f"{file.name}.json"
        run = ScenarioRun(
            id=_new_id(), scenario=name, seed=None, live=requested.live, switches=[], settings={}, state="queued",
            requested_ms=_now_ms(), replay=shlex.join(["zabka", *words, name, *where]), steps=len(file.steps),
        )  # fmt: skip
        patience_s = FILE_PATIENCE_S if requested.live else PATIENCE_S
        feed = file.model_dump_json(exclude_unset=True).encode()
        arguments = [*words, "-", *where]
        return self._enqueue(run, _Queued(arguments, script, requested.keep, patience_s, feed=feed))

    async def stop(self, run_id: str) -> ScenarioRun:
        """Stop a queued or running run, and return its last state. Raises Problem: 404, 409 if it has ended.

        A run on this cluster then restores the cluster, so it ends only after some seconds.
        """
        run = self.get(run_id)
        if run.state == "ended":
            raise Problem(409, f"{run_id} has already ended")
        self._stops[run_id].set()
        if run.state == "queued":
            del self._queue[run_id]
            self._runs[run_id] = run = run.model_copy(update={"state": "ended", "error": STOPPED, "took_ms": 0})
            self._forget()
        return run

    def unfinished_runs(self) -> list[ScenarioRun]:
        """Return the runs that have not ended, in the order of their requests."""
        return [run for run in self._runs.values() if run.state != "ended"]

    def live_runs(self) -> list[ScenarioRun]:
        """Return the runs on this cluster that have not ended."""
        return [run for run in self._runs.values() if run.live and run.state != "ended"]

    def request_seed(self, seed: int, requested: NewSeedRun) -> ScenarioRun:
        """Queue a run of a seed. The run will be stored.

        Raises Problem: 409 if the queue is full, 422 if a setting is not valid.
        """
        try:
            split_settings(requested.pairs())
        except BadSetting as reason:
            raise Problem(422, str(reason)) from None
        if requested.scenario in OF_WHOLE_PROCESSES and requested.settings:
            raise Problem(
                422, f"{requested.scenario} takes the keys of every server from its seed and accepts no settings"
            )
        arguments = _arguments("replay", "--scenario", requested.scenario, seed=seed, pairs=requested.pairs())
        run = ScenarioRun(
            id=_new_id(), scenario=requested.scenario, seed=seed, switches=[], settings=requested.settings,
            state="queued", requested_ms=_now_ms(), replay=shlex.join(["zabka", *arguments]),
        )  # fmt: skip
        return self._enqueue(run, _Queued(arguments, None, keep=True))

    def request_fork(self, original: Run, at_us: int | None, requested: NewFork) -> ScenarioRun:
        """Queue a fork of a stored run of a seed, or of a fork; it will be stored as the pair of that run.

        Raises Problem: 409 if the queue is full, 422 if the run cannot be forked, or not with this change.
        """
        origin = origin_of(original)
        before = [each.change() for each in origin.changes]
        if before and (at_us or 0) < before[-1].at_us and (at_us is not None or requested.settings):
            raise Problem(
                422, f"this lies before the last change of {original.id}: choose a later moment, or fork its pair"
            )
        pairs = [f"{key}={value}" for key, value in requested.settings.items()]
        try:
            for key, value in requested.settings.items():
                if at_us is not None:
                    check_setting(key, value)
            check_played(origin.scenario, world_settings(pairs), requested.settings)
        except BadSetting as reason:
            raise Problem(422, str(reason)) from None
        change = Change(
            at_us or 0, left_out=(*requested.without,), killed=(*requested.kill,), paused=(*requested.pause,),
            lasts_ms=requested.lasts_ms, settings=requested.settings,
        )  # fmt: skip
        at = START if at_us is None else f"{at_us / 1_000_000:.6f}s"
        arguments = [*_what_if(origin, before), "--at", at, *options_after(change)]
        run = ScenarioRun(
            id=_new_id(), scenario=origin.scenario, seed=origin.seed, switches=[], settings={}, state="queued",
            requested_ms=_now_ms(), replay=shlex.join(["zabka", *arguments]),
        )  # fmt: skip
        return self._enqueue(run, _Queued(arguments, None, keep=True, original=original))

    def _enqueue(self, run: ScenarioRun, requested: _Queued) -> ScenarioRun:
        if run.live and self.is_resetting():
            raise Problem(409, "a reset of the cluster is running; try again when it has ended")
        if len(self._queue) >= WAITING_MAX:
            raise Problem(409, f"{WAITING_MAX} runs are waiting already; try again when one has ended")
        self._runs[run.id] = run
        self._stops[run.id] = asyncio.Event()
        self._queue[run.id] = requested
        self._arrived.set()
        return run

    def get(self, run_id: str) -> ScenarioRun:
        """Return the state of a requested run. Raises Problem 404."""
        found = self._runs.get(run_id)
        if found is None:
            raise Problem(404, f"there is no run {run_id}; the last {REMEMBERED_MAX} that ended are available")
        return found

    async def run(self) -> None:
        """Execute queued runs, one at a time, until cancelled."""
        while True:
            while not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            run_id = next(iter(self._queue))
            requested = self._queue.pop(run_id)
            self._runs[run_id] = run = self._runs[run_id].model_copy(update={"state": "running"})
            began_s = time.monotonic()
            come_to = await self._come_to(run, requested)
            took_ms = int((time.monotonic() - began_s) * 1000)
            ended = {**come_to, "state": "ended", "took_ms": took_ms}
            self._runs[run_id] = self._runs[run_id].model_copy(update=ended)
            self._forget()

    async def _come_to(self, run: ScenarioRun, requested: _Queued) -> dict[str, Any]:
        """Execute a run and return its result as fields of `ScenarioRun`."""
        try:
            with workspace(self._kept, run.id) if requested.keep else nullcontext() as directory:
                if requested.original is not None:
                    return await self._play_fork(run, requested, requested.original, directory)
                if requested.script is None:
                    return await self._play_seed(run, requested, directory)
                return await self._play_script(run, requested, requested.script, directory)
        except (PlayerFailed, OSError, ValueError, KeyError) as reason:
            return {"error": str(reason)}
        except Exception as mistake:
            # An internal error ends this run, but not the task that executes all later runs.
            log.exception("a run ended by a mistake", run=run.id)
            return {"error": f"internal error of the player: {mistake!r}; see the API's log"}

    async def _play_script(
        self, run: ScenarioRun, requested: _Queued, script: Scenario, directory: Path | None
    ) -> dict[str, Any]:
        journals = [] if directory is None else ["--journals", str(directory)]
        progress = ["--progress"] if run.live else []
        output = await self._player.ask(
            *requested.arguments, *journals, *progress, "--json", patience_s=requested.patience_s,
            watch=self._watch(run, requested),
        )  # fmt: skip
        [report] = json.loads(output)["runs"]
        played = ScenarioPlay.model_validate(report["played"])
        outage = None if report["outage"] is None else ScenarioPlay.model_validate(report["outage"])
        come_to = {
            "verdict": "held" if report["held"] else "violated",
            "as_expected": report["held"],
            "problems": played.problems,
            "virtual_ms": played.virtual_ms,
            "journal_sha256": played.journal_sha256,
            "story": played.story,
            "outage": outage,
        }
        if self._stops[run.id].is_set():
            left = [problem for problem in played.problems if problem != INTERRUPTED]
            return {**come_to, "verdict": None, "as_expected": None, "problems": left, "error": STOPPED}
        if directory is None:
            return come_to
        plays = [_play_of(run, script.name, script.title, played)]
        if outage is not None:
            variant = script.outage.label if script.outage is not None else WITH_BUG
            plays.append(_play_of(run, script.name + BUG, f"{script.title}: {variant}", outage, variant))
        return {**come_to, **await self._keep(directory, plays)}

    def _watch(self, run: ScenarioRun, requested: _Queued) -> Watch:
        def is_progress(line: bytes) -> bool:
            try:
                step = BegunStep.model_validate_json(line)
            except ValidationError:
                return False
            here = self._runs[run.id]
            self._runs[run.id] = here.model_copy(update={"begun": [*here.begun, step]})
            return True

        return Watch(requested.feed, is_progress if run.live else None, self._stops[run.id])

    async def _play_seed(self, run: ScenarioRun, requested: _Queued, directory: Path | None) -> dict[str, Any]:
        assert directory is not None
        journal = directory / f"{SEED}.jsonl"
        messages = directory / f"{SEED}.messages.jsonl"
        output = await self._player.ask(
            *requested.arguments, "--out", str(journal), "--messages", str(messages), "--json",
            watch=self._watch(run, requested),
        )  # fmt: skip
        if self._stops[run.id].is_set():
            return {"error": STOPPED}
        played = SeedPlay.model_validate_json(output)
        verdict: Verdict = "violated" if played.problems else "held"
        play = Play(
            name=SEED,
            id=run.id,
            kind="seed",
            title=seed_title(run.scenario, run.seed),
            of=str(run.seed),
            verdict=verdict,
            sha256=played.journal_sha256,
            replay=run.replay,
            link=None if run.settings else link_of(run.scenario, run.seed),
            origin=None if run.settings or run.seed is None else Origin(scenario=run.scenario, seed=run.seed),
        )
        return {
            "verdict": verdict,
            "as_expected": not played.problems,
            "problems": played.problems,
            "virtual_ms": played.virtual_ms,
            "journal_sha256": played.journal_sha256,
            **await self._keep(directory, [play]),
        }

    async def _play_fork(
        self, run: ScenarioRun, requested: _Queued, original: Run, directory: Path | None
    ) -> dict[str, Any]:
        assert directory is not None
        output = await self._player.ask(
            *requested.arguments, "--journals", str(directory), watch=self._watch(run, requested)
        )
        if self._stops[run.id].is_set():
            return {"error": STOPPED}
        played = ForkPlay.model_validate_json(output)
        changes = msgspec.convert(played.changes, list[Change])
        origin = origin_of(original).model_copy(update={"changes": [ForkChange.of(each) for each in changes]})
        verdict: Verdict = "violated" if played.problems else "held"
        play = Play(
            name=FORK,
            id=run.id,
            kind="seed",
            title=seed_title(run.scenario, run.seed, played.change),
            of=str(run.seed),
            verdict=verdict,
            sha256=played.journal_sha256,
            replay=shlex.join(["zabka", *_what_if(origin, changes)]),
            origin=origin,
            decisive_seq=played.same + 1,
            variant=played.change,
            pair=original.id,
        )
        kept = await self._keep(directory, [play])
        if "error" not in kept:
            kept["kept"] = KeptPlays(run=original.id, bug=run.id)
        return {
            "verdict": verdict,
            "as_expected": not played.problems,
            "problems": played.problems,
            "virtual_ms": played.virtual_ms,
            "journal_sha256": played.journal_sha256,
            **kept,
        }

    async def _keep(self, directory: Path, plays: list[Play]) -> dict[str, Any]:
        try:
            await keep(self._kept, directory, plays)
        except NotKept as reason:
            return {"error": str(reason)}
        return {"kept": KeptPlays(run=plays[0].id, bug=plays[1].id if len(plays) > 1 else None)}

    def _forget(self) -> None:
        ended = [run.id for run in self._runs.values() if run.state == "ended"]
        for run_id in ended[: max(0, len(ended) - REMEMBERED_MAX)]:
            del self._runs[run_id]
            del self._stops[run_id]


def origin_of(run: Run) -> Origin:
    """Return the seed of a stored run, and its changes.  Raises Problem 422 if it has none."""
    if run.kind != "seed" or run.origin is None:
        raise Problem(422, f"{run.id} cannot be forked: only the stored run of a seed without settings of its own can")
    return run.origin


def _what_if(origin: Origin, changes: Sequence[Change]) -> list[str]:
    """Return the arguments of `zabka` that play a fork."""
    return [*_arguments("what-if", "--scenario", origin.scenario, seed=origin.seed, pairs=[]), *options(changes)]


WITH_BUG = "with its bug"
FORK = "what-if"
"""Name of the journal file that the scenario process writes for a fork."""
SEED = "seed"
"""Name of the journal file that the scenario process writes for a seed."""


def _play_of(run: ScenarioRun, name: str, title: str, played: ScenarioPlay, variant: str | None = None) -> Play:
    """Return the description of a scenario run to store. The run with the bug gets a different id."""
    bug = name.endswith(BUG)
    return Play(
        name=name,
        id=f"{run.id}{BUG}" if bug else run.id,
        kind="scenario",
        title=title,
        of=run.scenario,
        verdict="violated" if played.problems else "held",
        sha256=played.journal_sha256,
        replay=f"{run.replay} --out FILE" if bug else run.replay,
        decisive_seq=played.decisive,
        variant=variant,
        link=None
        if run.settings or run.switches or run.steps is not None
        else link_of(run.scenario, run.seed, with_bug=bug),
    )


def _new_id() -> str:
    return f"r{secrets.token_hex(4)}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _arguments(*words: str, seed: int | None, pairs: list[str]) -> list[str]:
    seeded = [] if seed is None else ["--seed", str(seed)]
    return [*words, *seeded, *(argument for pair in pairs for argument in ("--set", pair))]


def _check(scenario: Scenario, requested: NewScenarioRun) -> None:
    """Raise Problem 422 for a request that the scenario process would reject."""
    try:
        own, _ = split_settings(requested.pairs())
    except BadSetting as reason:
        raise Problem(422, str(reason)) from None
    if scenario.driver != "world" and requested.pairs():
        raise Problem(422, f"{scenario.name} is a scenario of the bare protocol, which has no settings")
    if requested.live and scenario.running_obstacle is not None:
        raise Problem(422, f"{scenario.name} cannot run on this cluster: {scenario.running_obstacle}")
    for key in own.keys() & {"peers", "brokers"}:
        raise Problem(422, f"{key}: {scenario.name} names its nodes, so their number cannot be set")
