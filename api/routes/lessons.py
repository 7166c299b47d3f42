"""Routes of the lessons: the questions, and their answers computed from a stored run of the lesson's scenario."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query

from zabka.api.http.problems import Problem, responses
from zabka.api.runs.history import History
from zabka.api.scenarios.lesson_answers import lesson_view, revealed
from zabka.api.scenarios.models import LessonRevealed, LessonView
from zabka.api.services import Service
from zabka.journal.events import Entry
from zabka.journal.reader import decode_line
from zabka.simulation.scenarios.lessons import LESSONS, NoMoment

router = APIRouter(prefix="/api/v1", tags=["lessons"])

BATCH_EVENTS = 1_000


@router.get("/lessons", summary="Every lesson", responses=responses())
async def get_lessons() -> list[LessonView]:
    """Return the lessons, ordered from common outages to difficult ones."""
    return [lesson_view(lesson) for lesson in LESSONS.values()]


@router.get("/lessons/{name}/answer", summary="The answer to a lesson", responses=responses(404, 409, 410, 422))
async def get_answer(
    name: Annotated[str, Path(examples=["leader-killed"])],
    service: Service,
    run: Annotated[str, Query(description="A stored run of the lesson's scenario, with or without its bug")],
) -> LessonRevealed:
    """Return a lesson's right answer and its decisive event, found in a run of its scenario with or without the bug.

    If the decisive event occurs only in the other variant of the given run, the stored counterpart of the run is
    searched. Returns 409 if the run is not of the lesson's scenario, or if the decisive event does not occur in it.
    """
    lesson = LESSONS.get(name)
    if lesson is None:
        raise Problem(404, f"there is no lesson {name}; GET /api/v1/lessons lists them")
    about = service.runs.get(run)
    # Check the kind too: an uploaded journal may have the name of a scenario.
    if (about.kind, about.of) != ("scenario", lesson.scenario):
        raise Problem(409, f"{run} is not a run of {lesson.scenario}, the scenario of this lesson")
    pair = about.pair
    if run.endswith(".bug") != lesson.moment.with_bug:
        if pair is None:
            raise Problem(409, f"the pair of {run}, which this lesson needs, is no longer stored")
        run, pair = pair, run
    entries = await _entries(service.runs.rewind(run).history)
    try:
        return revealed(lesson, entries, run, pair)
    except NoMoment as reason:
        raise Problem(409, str(reason)) from None


async def _entries(history: History) -> list[Entry]:
    entries: list[Entry] = []
    seq = history.first_seq
    while rows := history.read(seq, BATCH_EVENTS):
        entries += [decode_line(row.json) for row in rows]
        seq = rows[-1].seq + 1
        await asyncio.sleep(0)
    return entries
