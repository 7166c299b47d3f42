"""Thirteen outages as lessons: a question, possible answers, the script to run, and the decisive event.

The dashboard shows the lessons, and `docs/lessons/` is generated from them. The right answer is computed from the
events of the script's run (`Lesson.right`), with the rules in `zabka.journal.rules`. `api` and `cli` import this
package, which refers to scripts by name and does not run them. Start reading at `lesson`.
"""

from __future__ import annotations

from zabka.simulation.scenarios.lessons.controller_lessons import CONTROLLER_LESSONS
from zabka.simulation.scenarios.lessons.ensemble_lessons import ENSEMBLE_LESSONS
from zabka.simulation.scenarios.lessons.lesson import Lesson as Lesson
from zabka.simulation.scenarios.lessons.lesson import NoMoment as NoMoment
from zabka.simulation.scenarios.lessons.lesson import Scene as Scene
from zabka.simulation.scenarios.lessons.replication_lessons import REPLICATION_LESSONS
from zabka.simulation.scenarios.lessons.transaction_lessons import TRANSACTION_LESSONS

_ORDER = (
    "controller-killed", "leader-killed", "follower-lags", "last-replica", "zombie-controller", "zab-leader-killed",
    "quorum-lost", "high-watermark", "preferred-leader", "acks", "aborted-record", "cut-one-way",
    "reassignment-interrupted",
)  # fmt: skip
"""Order of the lessons, from common outages to difficult ones."""
_BY_NAME = {
    lesson.name: lesson
    for lesson in (*CONTROLLER_LESSONS, *ENSEMBLE_LESSONS, *REPLICATION_LESSONS, *TRANSACTION_LESSONS)
}
LESSONS: dict[str, Lesson] = {name: _BY_NAME[name] for name in _ORDER}
