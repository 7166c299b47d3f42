"""Each lesson matches a run of its script.

The event that the lesson shows occurs, a step of the script caused this event, and exactly one answer is correct.
"""

from __future__ import annotations

from functools import cache

import msgspec
import pytest

from zabka.journal.causes import End
from zabka.journal.events import BY_NAME, AdminRequested, Entry, FaultInjected
from zabka.journal.rules import rule_of
from zabka.simulation.scenarios.lessons import LESSONS, Lesson, NoMoment, Scene
from zabka.simulation.scenarios.lessons.lesson import Moment
from zabka.simulation.scenarios.library import LIBRARY, seeded
from zabka.simulation.scenarios.scenario import StepTaken, Verdict, WorldScenario
from zabka.simulation.scenarios.world_player import play

THIRTEEN = 13
DOES_SOMETHING = ("kill", "pause", "cut", "delay", "stop", "elect", "reassign")
"""First words of script steps that have an effect on the cluster."""
ASKED_BY = {"ElectLeaders": "elect", "ControlledShutdown": "stop"}
"""First word of the script step that causes each of these requests."""
ANOTHER_SEED = 7


@cache
def played(name: str, seed: int | None = None) -> Verdict:
    script = LIBRARY[name] if seed is None else seeded(LIBRARY[name], seed)
    assert isinstance(script, WorldScenario)
    return play(script)


def shown(lesson: Lesson, seed: int | None = None) -> Verdict:
    verdict = played(lesson.scenario, seed)
    assert verdict.problems == []
    found = verdict.shown if lesson.moment.with_bug else verdict
    assert found is not None
    return found


def scene_of(lesson: Lesson) -> Scene:
    return lesson.scene(shown(lesson).journal)


def step_before(verdict: Verdict, place: int) -> StepTaken:
    """Return the last step with an effect on the cluster before the journal entry with index `place`."""
    return [step for step in verdict.taken if step.entries <= place and step.text.startswith(DOES_SOMETHING)][-1]


EACH = pytest.mark.parametrize("lesson", LESSONS.values(), ids=lambda lesson: lesson.name)


def test_there_are_thirteen_lessons() -> None:
    assert len(LESSONS) == THIRTEEN
    assert all(name == lesson.name for name, lesson in LESSONS.items())


@EACH
def test_event_shown_by_a_lesson_is_selected_by_its_fields(lesson: Lesson) -> None:
    fields = BY_NAME[lesson.moment.type].__struct_fields__
    assert set(lesson.moment.fields) <= set(fields)
    assert lesson.moment.fields, "the first event of a type is seldom the one that is meant"


@EACH
def test_lesson_has_exactly_one_correct_answer(lesson: Lesson) -> None:
    scene = scene_of(lesson)
    right = lesson.right(scene)
    assert [answer.holds(scene) for answer in lesson.answers].count(True) == 1
    assert lesson.answers[right].holds(scene)


@EACH
def test_lesson_has_the_same_correct_answer_with_other_delays(lesson: Lesson) -> None:
    other = lesson.scene(shown(lesson, ANOTHER_SEED).journal)
    assert lesson.right(other) == lesson.right(scene_of(lesson))


def test_correct_answers_are_spread_over_all_positions() -> None:
    places = [lesson.right(scene_of(lesson)) for lesson in LESSONS.values()]
    assert all(places.count(place) in (THIRTEEN // 3, THIRTEEN // 3 + 1) for place in range(3))


@EACH
def test_decision_event_in_a_lesson_has_a_rule(lesson: Lesson) -> None:
    assert rule_of(scene_of(lesson).event) is not None


@EACH
def test_cause_chain_in_a_lesson_begins_with_a_script_step(lesson: Lesson) -> None:
    verdict, scene = shown(lesson), scene_of(lesson)
    begun = scene.chain.steps[-1]
    assert begun is scene.beginning
    assert scene.chain.end in (End.REQUEST, End.FAULT)
    assert isinstance(begun.event, FaultInjected | AdminRequested)
    step = step_before(verdict, verdict.journal.index(begun))
    if isinstance(begun.event, FaultInjected):
        assert begun.event.target in step.text or begun.event.source in step.text
    else:
        assert step.text.startswith(ASKED_BY[begun.event.request])
        assert scene.chain.end is End.REQUEST


@EACH
def test_first_cause_in_a_lesson_precedes_the_shown_event(lesson: Lesson) -> None:
    scene = scene_of(lesson)
    assert scene.beginning is not None
    assert scene.entries.index(scene.beginning) < scene.place


@EACH
def test_lesson_has_a_question_and_three_different_answers(lesson: Lesson) -> None:
    assert lesson.question.endswith("?")
    assert len(lesson.answers) == len({answer.text for answer in lesson.answers}) == 3
    for text in (lesson.look_at, lesson.explanation, *(answer.text for answer in lesson.answers)):
        assert text.endswith(".") and "  " not in text


def test_lesson_about_a_bug_uses_a_script_with_a_bug() -> None:
    for lesson in LESSONS.values():
        script = LIBRARY[lesson.scenario]
        assert isinstance(script, WorldScenario)
        assert not lesson.moment.with_bug or script.shows


def test_history_without_the_event_of_a_lesson_raises_an_error() -> None:
    entries = shown(LESSONS["leader-killed"]).journal
    with pytest.raises(NoMoment, match="no leader_elected with leader_epoch=99 is in this play"):
        Scene(entries, Moment("leader_elected", {"leader_epoch": 99}))


def test_correct_answer_of_a_lesson_depends_on_its_history() -> None:
    """If the run's history changes, another answer of the lesson becomes correct.

    The correct answer is computed from the history, not stored in the lesson.
    """
    lesson = LESSONS["leader-killed"]
    scene = scene_of(lesson)

    def right_if(**otherwise: object) -> int:
        entries: list[Entry] = list(scene.entries)
        entries[scene.place] = msgspec.structs.replace(
            scene.entry, event=msgspec.structs.replace(scene.event, **otherwise)
        )
        return lesson.right(Scene(entries, lesson.moment))

    assert len({lesson.right(scene), right_if(isr=[3, 1]), right_if(leader=-1, isr=[1])}) == 3
