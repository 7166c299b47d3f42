"""A lesson as the page shows it, and its right answer, computed from a run of its scenario."""

from __future__ import annotations

from collections.abc import Sequence

from zabka.api.runs.run_models import WhyStep
from zabka.api.runs.why import chain_to_json
from zabka.api.scenarios.models import LessonRevealed, LessonView
from zabka.journal.events import Entry
from zabka.journal.sentence_file import read_sentences
from zabka.simulation.scenarios.lessons import Lesson


def lesson_view(lesson: Lesson) -> LessonView:
    """Return a lesson without its answer."""
    return LessonView(
        name=lesson.name,
        title=lesson.title,
        scenario=lesson.scenario,
        question=lesson.question,
        answers=[answer.text for answer in lesson.answers],
        with_bug=lesson.moment.with_bug,
    )


def revealed(lesson: Lesson, entries: Sequence[Entry], run: str, pair: str | None) -> LessonRevealed:
    """Return a lesson's right answer, computed from the events of a run.

    Raises NoMoment if the lesson's decisive moment does not occur in the run.
    """
    scene, sentences = lesson.scene(entries), read_sentences()
    begun = scene.beginning
    return LessonRevealed(
        run=run,
        pair=pair,
        seq=scene.entry.seq,
        right=lesson.right(scene),
        look_at=lesson.look_at,
        explanation=lesson.explanation,
        chain=[WhyStep.model_validate(step) for step in chain_to_json(scene.chain)],
        beginning=None if begun is None else {"seq": begun.seq, "told": sentences.sentence(begun.node, begun.event)},
    )
