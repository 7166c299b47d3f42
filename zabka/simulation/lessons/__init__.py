"""Twelve outages to learn from, prediction first: a question, answers, the script that plays it, the moment to look at.

The dashboard asks them, and `docs/lessons/` is made of them; which answer is right is read from the play's history
(`Lesson.right`), and the rule behind it is the journal's (`zabka.journal.rules`).  `api` and `cli` import this
package; it knows the scripts by their names and plays nothing.  Begin with `lesson`.
"""

from __future__ import annotations

from zabka.simulation.lessons.controller_lessons import CONTROLLER_LESSONS
from zabka.simulation.lessons.ensemble_lessons import ENSEMBLE_LESSONS
from zabka.simulation.lessons.lesson import Lesson as Lesson
from zabka.simulation.lessons.lesson import NoMoment as NoMoment
from zabka.simulation.lessons.lesson import Scene as Scene
from zabka.simulation.lessons.replication_lessons import REPLICATION_LESSONS

_ORDER = (
    "controller-killed", "leader-killed", "follower-lags", "last-replica", "zombie-controller", "zab-leader-killed",
    "quorum-lost", "high-watermark", "preferred-leader", "acks", "cut-one-way", "reassignment-interrupted",
)  # fmt: skip
"""From what happens every week to what takes thought."""
_BY_NAME = {lesson.name: lesson for lesson in (*CONTROLLER_LESSONS, *ENSEMBLE_LESSONS, *REPLICATION_LESSONS)}
LESSONS: dict[str, Lesson] = {name: _BY_NAME[name] for name in _ORDER}
