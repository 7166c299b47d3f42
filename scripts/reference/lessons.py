"""Reference pages of the lessons, one each, made from the dashboard's lessons and from a run of each script.

The correct choice, the sentence for the lesson's decisive event, and the causes of that event are read from the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from scripts.reference.markdown import code, document, table
from zabka.controller.historical import HISTORICAL_KEY
from zabka.journal.rules import Rule, rule_of
from zabka.journal.sentence_file import read_sentences
from zabka.simulation.scenarios.lessons import LESSONS, Lesson, Scene
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import WorldScenario
from zabka.simulation.scenarios.world_player import play

_INTRODUCTION = (
    "Thirteen outages, prediction first: read the question, choose an answer, and only then read on. The dashboard's "
    "tab Lessons asks the same questions and runs the scenarios. The site that `make docs` builds plays each lesson in "
    "the browser. The right answer is not stored anywhere: it is derived from the events of the run."
)
_LETTERS = "abc"


def scene_of(lesson: Lesson) -> Scene:
    """Run the lesson's script and return the scene around the lesson's decisive event."""
    script = LIBRARY[lesson.scenario]
    assert isinstance(script, WorldScenario)
    verdict = play(script)
    shown = verdict.shown if lesson.moment.with_bug else verdict
    assert shown is not None
    return lesson.scene(shown.journal)


def index() -> str:
    """Return the page that lists the lessons."""
    rows = ([f"[{lesson.title}]({name}.md)", f"`{lesson.scenario}`"] for name, lesson in LESSONS.items())
    return document("Lessons", _INTRODUCTION, table(["lesson", "scenario"], rows))


def page(lesson: Lesson) -> str:
    """Return the page of one lesson."""
    return document(lesson.title, lesson.question, "\n".join(_parts(lesson, scene_of(lesson))))


def _parts(lesson: Lesson, scene: Scene) -> Iterator[str]:
    for letter, answer in zip(_LETTERS, lesson.answers, strict=True):
        yield f"- **{letter}** {answer.text}"
    yield "\n## Run it\n"
    yield f"```\n.venv/bin/zabka scenarios run {lesson.scenario} --story\n```\n"
    yield f"{_plays(lesson)}{lesson.look_at}\n"
    yield "## What happens\n"
    right = lesson.right(scene)
    yield f"**{_LETTERS[right]}** is right: {_lowered(lesson.answers[right].text)}\n"
    yield f"{lesson.explanation}\n"
    yield from _chain(scene)
    yield "## The rules\n"
    for rule in dict.fromkeys(rule for step in scene.chain.steps if (rule := rule_of(step.event))):
        yield _rule(rule)
    yield "\n[All lessons](index.md)\n"


def _lowered(text: str) -> str:
    return text[0].lower() + text[1:] if text.split()[0] not in ("ISR",) else text


def _plays(lesson: Lesson) -> str:
    script = LIBRARY[lesson.scenario]
    assert isinstance(script, WorldScenario)
    if not script.bug:
        return ""
    bug = ", ".join(code(f"{key}={value}") for key, value in script.bug.items())
    kind = "old behaviour" if HISTORICAL_KEY in script.bug else "setting"
    which = "the second run" if lesson.moment.with_bug else "the first run"
    return f"The scenario runs twice, the second time with the {kind} {bug}; the question is about {which}. "


def _chain(scene: Scene) -> Iterator[str]:
    sentences = read_sentences()
    yield "In the journal, from the effect back to its cause:\n"
    for place, entry in enumerate(scene.chain.steps):
        yield f"{place + 1}. `{entry.node}`: {sentences.sentence(entry.node, entry.event)}"
    yield ""


def _rule(rule: Rule) -> str:
    folder = rule.source.path.rpartition("/")[0]
    name = rule.source.symbol.rpartition(".")[2] if "." in rule.source.symbol else rule.source.symbol
    links = ", ".join(f"[{link.name}]({link.url})" for link in (rule.theirs, *rule.references))
    title = rule.name[0].upper() + rule.name[1:]
    return f"- **{title}.** {rule.sentence} In zabka: `{name}` (`{folder}/`). Upstream: {links}."


LESSON_PAGES: Mapping[str, Callable[[], str]] = {
    "index.md": index,
    **{f"{name}.md": partial(page, lesson) for name, lesson in LESSONS.items()},
}
