"""Exports a lesson as one HTML file: the question, the prediction, the runs of its scenario, and the explanation."""

from __future__ import annotations

from typing import Any

from zabka.api.exports.contents import contents
from zabka.api.exports.document import document, packed
from zabka.api.exports.played import scenario_runs
from zabka.api.scenarios.lesson_answers import lesson_view, revealed
from zabka.simulation.scenarios.lessons import LESSONS, Lesson
from zabka.simulation.scenarios.library import LIBRARY


def file_name(lesson: Lesson) -> str:
    """Return the name of the lesson's file. All lesson files are in one folder and link to each other."""
    return f"{lesson.name}.html"


def lesson_page(lesson: Lesson) -> str:
    """Run the lesson's scenario in the simulated world and return the HTML file. Raises NoPage."""
    runs = scenario_runs(LIBRARY[lesson.scenario])
    shown, other = (runs[1], runs[0]) if lesson.moment.with_bug else (runs[0], runs[1] if len(runs) > 1 else None)
    answer = revealed(lesson, shown.entries, shown.about.id, None if other is None else other.about.id)
    lessons: list[dict[str, Any]] = [
        {
            "lesson": lesson_view(each).model_dump() | ({} if each is lesson else {"page": file_name(each)}),
            "answer": answer.model_dump(mode="json") if each is lesson else None,
        }
        for each in LESSONS.values()
    ]
    opening = {"run": shown.about.id, "at": shown.about.first_seq, "tab": "lessons", "lesson": lesson.name}
    return document(f"{lesson.title} · zabka", packed(contents(runs, opening, lessons)))
