"""Reference pages of the lessons, one for each, generated from the dashboard's lessons and from runs of scripts.

The correct choice, the sentence for the lesson's decisive event, and the causes of that event are read from the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial

from scripts.reference.markdown import code, document, table
from zabka.controller.historical import HISTORICAL_KEY
from zabka.journal.rules import Rule, rule_of
from zabka.journal.sentence_file import read_sentences
from zabka.simulation.scenarios.lessons import LESSONS, Lesson, Scene
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import WorldScenario
from zabka.simulation.scenarios.world_player import play

_INTRODUCTION = (
    "Thirteen outages: read the question, choose an answer, and only then read on. The dashboard's tab Lessons asks "
    "the same questions and runs the scenarios. The site that `make docs` builds plays each lesson in the browser. "
    "`zabka why` prints the rules of each decision."
)
_LETTERS = "abc"


@cache
def scene_of(lesson_name: str) -> Scene:
    """Run the lesson's script and return the scene around the lesson's decisive event."""
    lesson = LESSONS[lesson_name]
    script = LIBRARY[lesson.scenario]
    assert isinstance(script, WorldScenario)
    verdict = play(script)
    shown = verdict.shown if lesson.moment.with_bug else verdict
    assert shown is not None
    return lesson.scene(shown.journal)


def index() -> str:
    """Return the page that lists the lessons, and the rules that decide them."""
    rows = ([f"[{lesson.title}]({name}.md)", f"`{lesson.scenario}`"] for name, lesson in LESSONS.items())
    rules = dict.fromkeys(rule for name in LESSONS for rule in _rules(scene_of(name)))
    return document(
        "Lessons", _INTRODUCTION, table(["lesson", "scenario"], rows), "## Rules\n", "\n".join(map(_rule, rules)) + "\n"
    )


def page(lesson: Lesson) -> str:
    """Return the page of one lesson."""
    return document(lesson.title, lesson.question, "\n".join(_parts(lesson, scene_of(lesson.name))))


def _parts(lesson: Lesson, scene: Scene) -> Iterator[str]:
    for letter, answer in zip(_LETTERS, lesson.answers, strict=True):
        yield f"- **{letter}** {answer.text}"
    yield "\n## Run it\n"
    yield f"```\n.venv/bin/zabka scenarios run {lesson.scenario} --story\n```\n"
    yield f"{_plays(lesson)}{lesson.look_at}\n"
    yield "## What happens\n"
    yield f"**{_LETTERS[lesson.right(scene)]}** is right. {lesson.explanation}\n"
    yield from _chain(scene)
    rules = " ".join(f"{_title(rule)}." for rule in _rules(scene))
    yield f"[The rules](index.md#rules): {rules}\n"


def _rules(scene: Scene) -> Iterable[Rule]:
    """Return, without duplicates, the rules of the decisions that led to the lesson's decisive event."""
    return dict.fromkeys(rule for step in scene.chain.steps if (rule := rule_of(step.event)))


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
    yield "The causes, from the journal:\n"
    for place, entry in enumerate(scene.chain.steps):
        yield f"{place + 1}. `{entry.node}`: {sentences.sentence(entry.node, entry.event)}"
    yield ""


def _rule(rule: Rule) -> str:
    """Return a rule's entry: its name, the function that implements it, and its links. `zabka why` prints its text."""
    folder = rule.source.path.rpartition("/")[0]
    name = rule.source.symbol.rpartition(".")[2] if "." in rule.source.symbol else rule.source.symbol
    links = ", ".join(f"[{link.name}]({link.url})" for link in (rule.theirs, *rule.references))
    return f"- {_title(rule)}: `{name}` (`{folder}/`); {links}"


def _title(rule: Rule) -> str:
    return rule.name[0].upper() + rule.name[1:]


LESSON_PAGES: Mapping[str, Callable[[], str]] = {
    "index.md": index,
    **{f"{name}.md": partial(page, lesson) for name, lesson in LESSONS.items()},
}
