"""The outage library over HTTP: what there is, and runs of it, one at a time, the last ones remembered."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import time
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from api.problems import Problem
from api.scenario_models import NewScenarioRun, Scenario, ScenarioPlay, ScenarioRun
from api.scenario_process import PlayerFailed
from simulation.settings import BadSetting, split_settings

WAITING_MAX = 10
REMEMBERED_MAX = 30

_LIBRARY = TypeAdapter(list[Scenario])


class Player(Protocol):
    """Answers what `zabka scenarios` would, in JSON.  Raises PlayerFailed."""

    async def ask(self, *arguments: str) -> bytes: ...


class ScenarioRuns:
    """Runs wait in a queue for the one player; they are gone with this process."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._library: dict[str, Scenario] = {}
        self._reading = asyncio.Lock()
        self._runs: dict[str, ScenarioRun] = {}
        self._queue: asyncio.Queue[tuple[str, list[str]]] = asyncio.Queue(WAITING_MAX)

    async def library(self) -> dict[str, Scenario]:
        """Every scenario, by name; asked for once.  Raises Problem 503."""
        async with self._reading:
            if not self._library:
                try:
                    found = _LIBRARY.validate_json(await self._player.ask("list", "--json"))
                except (PlayerFailed, ValidationError) as reason:
                    raise Problem(503, f"the outage library cannot be read: {reason}") from None
                self._library = {scenario.name: scenario for scenario in found}
        return self._library

    async def request(self, name: str, wanted: NewScenarioRun) -> ScenarioRun:
        """Let a scenario wait for its turn.  Raises Problem: 404, 409 where too many wait, 422, 503."""
        scenario = (await self.library()).get(name)
        if scenario is None:
            raise Problem(404, f"there is no scenario {name}; GET /api/v1/scenarios lists them")
        _check(scenario, wanted)
        if self._queue.full():
            raise Problem(409, f"{WAITING_MAX} runs are waiting already; come back when one has ended")
        arguments = _arguments(name, wanted.seed, wanted.pairs())
        run = ScenarioRun(
            id=f"r{secrets.token_hex(4)}",
            scenario=name,
            seed=wanted.seed,
            switches=[*wanted.switches],
            settings=wanted.settings,
            state="queued",
            requested_ms=time.time_ns() // 1_000_000,
            replay=shlex.join(["zabka", "scenarios", *arguments]),
        )
        self._runs[run.id] = run
        self._queue.put_nowait((run.id, arguments))
        return run

    def get(self, run_id: str) -> ScenarioRun:
        """How a run stands.  Raises Problem 404."""
        found = self._runs.get(run_id)
        if found is None:
            raise Problem(404, f"there is no run {run_id}; the last {REMEMBERED_MAX} that ended are remembered")
        return found

    async def run(self) -> None:
        """Play what waits, one after the other, until cancelled."""
        while True:
            run_id, arguments = await self._queue.get()
            self._runs[run_id] = run = self._runs[run_id].model_copy(update={"state": "running"})
            began_s = time.monotonic()
            come_to = await self._play(arguments)
            took_ms = int((time.monotonic() - began_s) * 1000)
            self._runs[run_id] = run.model_copy(update={**come_to, "state": "ended", "took_ms": took_ms})
            self._forget()

    async def _play(self, arguments: list[str]) -> dict[str, Any]:
        """What a run came to, by field."""
        try:
            [report] = json.loads(await self._player.ask(*arguments, "--json"))["runs"]
            played = ScenarioPlay.model_validate(report["played"])
            outage = None if report["outage"] is None else ScenarioPlay.model_validate(report["outage"])
        except (PlayerFailed, ValueError, KeyError) as reason:
            return {"error": str(reason)}
        return {
            "verdict": "held" if report["held"] else "violated",
            "as_expected": report["held"],
            "problems": played.problems,
            "virtual_ms": played.virtual_ms,
            "journal_sha256": played.journal_sha256,
            "story": played.story,
            "outage": outage,
        }

    def _forget(self) -> None:
        ended = [run.id for run in self._runs.values() if run.state == "ended"]
        for run_id in ended[: max(0, len(ended) - REMEMBERED_MAX)]:
            del self._runs[run_id]


def _arguments(name: str, seed: int | None, pairs: list[str]) -> list[str]:
    seeded = [] if seed is None else ["--seed", str(seed)]
    return ["run", name, *seeded, *(argument for pair in pairs for argument in ("--set", pair))]


def _check(scenario: Scenario, wanted: NewScenarioRun) -> None:
    """Raises Problem 422 with what the player would say."""
    try:
        own, _ = split_settings(wanted.pairs())
    except BadSetting as reason:
        raise Problem(422, str(reason)) from None
    if scenario.driver == "cores" and wanted.pairs():
        raise Problem(422, f"{scenario.name} is a script over the bare protocol, which has nothing to set")
    for key in own.keys() & {"peers", "brokers"}:
        raise Problem(422, f"{key}: {scenario.name} names its nodes, so their number is its own")
