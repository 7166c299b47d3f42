"""Lessons about transactions: when consumers can read their records, depending on isolation.level."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.simulation.scenarios.lessons.lesson import Answer, Lesson, Moment, Scene


def _first_offset(scene: Scene) -> int:
    """Return the offset of the transaction's first record, from the event of its marker."""
    return int(scene.event.first_offset)


def _removed(scene: Scene) -> bool:
    cut = [*scene.earlier(e.LogTruncated), *scene.later(e.LogTruncated)]
    return any(each.topic == scene.event.topic and each.to_offset <= _first_offset(scene) for each in cut)


def _committed(scene: Scene) -> bool:
    return bool(scene.event.is_commit) and not _removed(scene)


def _readable_before_its_end(scene: Scene) -> bool:
    """Whether only read_uncommitted consumers could read the records before the transaction's marker."""
    moved = [told for told in scene.earlier(e.HighWatermarkMoved) if told.is_leader and told.topic == scene.event.topic]
    held = [told.last_stable_offset for told in scene.earlier(e.LastStableOffsetHeld)]
    return moved[-1].high_watermark > _first_offset(scene) and held == [_first_offset(scene)]


def _read_uncommitted_only(scene: Scene) -> bool:
    return not scene.event.is_commit and not _removed(scene) and _readable_before_its_end(scene)


TRANSACTION_LESSONS: tuple[Lesson, ...] = (
    Lesson(
        "aborted-record",
        "Who sees an aborted record?",
        "producer-killed",
        "A producer sends three records in a transaction and is killed. Another producer's records follow in the same "
        "partition. When the transaction's timeout has passed, the coordinator aborts it. Which consumers get the "
        "three records?",
        (
            Answer("No consumer: the abort removes them from the log.", _removed),
            Answer(
                "Only consumers with isolation.level=read_uncommitted, and they get them before the abort.",
                _read_uncommitted_only,
            ),
            Answer("All consumers: with read_committed they wait until the transaction has ended.", _committed),
        ),
        Moment("marker_written", {"is_commit": False}),
        look_at=(
            "The partition's row: from the first record of the transaction on, the last stable offset is held back, "
            "while the high watermark goes on. The marker ends that."
        ),
        explanation=(
            "An abort removes nothing from the log: the leader appends a marker after the records. Consumers with the "
            "default isolation.level=read_uncommitted read up to the high watermark. Consumers with read_committed "
            "read up to the last stable offset, which an open transaction holds back; so they also wait for the other "
            "producer's records after it. The marker lets the last stable offset move on; the response to the next "
            "fetch lists the aborted transaction, and the client leaves its records out. So a producer that dies "
            "keeps these consumers waiting for up to transaction.timeout.ms, and some seconds more until the "
            "coordinator checks."
        ),
    ),
)
