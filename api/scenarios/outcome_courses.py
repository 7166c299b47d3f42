"""Plays how likely a loss was over the time of a stored run, in a child process (`zabka what-if --every`)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import structlog
from pydantic import ValidationError

from zabka.api.http.problems import Problem
from zabka.api.runs.intake import SIMULATION_BEGINS_US
from zabka.api.runs.run_models import Run
from zabka.api.scenarios.course_models import CoursePlot, NewOutcomeCourse, OutcomeCourse
from zabka.api.scenarios.forecasts import Follower
from zabka.api.scenarios.process import PlayerFailed
from zabka.api.scenarios.runs import STOPPED, origin_of
from zabka.simulation.fork import options

log = structlog.get_logger()

PATIENCE_S = 1_800.0
EVERY_US_MIN = 100_000
REMEMBERED_MAX = 20


class OutcomeCourses:
    """Plays one course at a time, and remembers the last one of each run."""

    def __init__(self, player: Follower) -> None:
        self._player = player
        self._courses: dict[str, OutcomeCourse] = {}
        self._playing: tuple[str, asyncio.Task[None]] | None = None

    def request(self, run: Run, end_us: int, requested: NewOutcomeCourse) -> OutcomeCourse:
        """Begin to play the course of a stored run up to `end_us`, the time of its first loss or of its end.

        Raises Problem: 409 if another course is being played, 422 if the run is not of a seed.
        """
        origin = origin_of(run)
        if self._playing is not None and not self._playing[1].done():
            raise Problem(409, "another course is being played; try again when it has ended")
        every_us = max(EVERY_US_MIN, -((SIMULATION_BEGINS_US - end_us) // requested.moments))
        arguments = (
            "what-if", "--seed", str(origin.seed), "--scenario", origin.scenario,
            "--at", "0s", *options([each.change() for each in origin.changes]),
            "--futures", str(requested.futures), "--every", f"{every_us / 1_000_000:.6f}s", "--json",
        )  # fmt: skip
        self._courses.pop(run.id, None)
        self._courses[run.id] = found = OutcomeCourse(run=run.id, state="running")
        for old in list(self._courses)[:-REMEMBERED_MAX]:
            del self._courses[old]
        self._playing = (run.id, asyncio.create_task(self._play(run.id, arguments)))
        return found

    def find(self, run: str) -> OutcomeCourse | None:
        """Return the last course of a run, as far as it has been played, or None if none was requested."""
        return self._courses.get(run)

    async def stop(self, run: str) -> OutcomeCourse:
        """End the process that plays a run's course, and return the course.  Raises Problem: 404, 409 if it ended."""
        found = self.find(run)
        if found is None:
            raise Problem(404, f"no course of {run} was requested")
        if found.state == "ended" or self._playing is None or self._playing[0] != run:
            raise Problem(409, f"the course of {run} has already ended")
        await self.close()
        return self._courses[run]

    async def _play(self, run: str, arguments: tuple[str, ...]) -> None:
        error: str | None = STOPPED
        try:
            lines = self._player.follow(*arguments, feed=b"", patience_s=PATIENCE_S)
            async with aclosing(lines) as lines:  # type: ignore[type-var]
                async for line in lines:
                    self._change(run, plot=CoursePlot.model_validate_json(line).since(SIMULATION_BEGINS_US))
            error = None
        except (PlayerFailed, ValidationError, OSError) as reason:
            error = str(reason)
        except Exception as mistake:
            log.exception("a course ended by a mistake", run=run)
            error = f"internal error: {mistake!r}; see the API's log"
        finally:
            self._change(run, state="ended", error=error)

    def _change(self, run: str, **changes: Any) -> None:
        if run in self._courses:
            self._courses[run] = self._courses[run].model_copy(update=changes)

    async def close(self) -> None:
        """End the course that is being played, and its process."""
        if self._playing is not None:
            self._playing[1].cancel()
            await asyncio.gather(self._playing[1], return_exceptions=True)
