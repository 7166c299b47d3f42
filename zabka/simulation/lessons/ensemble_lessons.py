"""Lessons about the ensemble: who leads it, what it commits, and what it cannot do without a quorum."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.simulation.lessons.lesson import Answer, Lesson, Moment, Scene


def _answered(scene: Scene) -> int:
    """The highest zxid of which a client had been told, at the moment."""
    return max((told.zxid for told in scene.earlier(e.WriteAcknowledged)), default=0)


def _proposed(scene: Scene) -> set[int]:
    """What the old leader had proposed, and nobody had been told of."""
    return {told.zxid for told in scene.earlier(e.TxnProposed) if told.zxid > _answered(scene)}


def _committed(scene: Scene) -> set[int]:
    return _proposed(scene) & {told.zxid for told in scene.later(e.TxnCommitted)}


def _all_committed(scene: Scene) -> bool:
    return _proposed(scene) == _committed(scene) != set()


def _none_committed(scene: Scene) -> bool:
    return not _committed(scene)


def _some_committed(scene: Scene) -> bool:
    return set() < _committed(scene) < _proposed(scene)


def _acknowledged_without_quorum(scene: Scene) -> int:
    """How many records were acknowledged while two of three peers were down."""
    entries = scene.entries[: scene.place]
    lost = [n for n, entry in enumerate(entries) if _is_crash(entry.event, "peer")]
    back = [n for n, entry in enumerate(entries) if isinstance(entry.event, e.LeaderEstablished) and n > lost[-1]]
    return sum(isinstance(entry.event, e.RecordsAcknowledged) for entry in entries[lost[-1] : back[0]])


def _is_crash(event: e.Event, role: str) -> bool:
    return isinstance(event, e.FaultInjected) and event.kind == "crash" and event.target.startswith(role)


def _elected_without_quorum(scene: Scene) -> bool:
    """Another leader was elected before a quorum served again."""
    return scene.earlier(e.LeaderEstablished)[-1].epoch == 1


def _nothing_acknowledged(scene: Scene) -> bool:
    return _acknowledged_without_quorum(scene) == 0


def _served_but_nobody_elected(scene: Scene) -> bool:
    return _acknowledged_without_quorum(scene) > 0 and not _elected_without_quorum(scene)


def _as_if_nothing_had_happened(scene: Scene) -> bool:
    return _acknowledged_without_quorum(scene) > 0 and _elected_without_quorum(scene)


ENSEMBLE_LESSONS: tuple[Lesson, ...] = (
    Lesson(
        "zab-leader-killed",
        "The ensemble's leader is killed under writes",
        "zab-leader-killed",
        "The leader of a ZooKeeper ensemble has proposed four writes. The proposals have left it, no acknowledgement "
        "has come back, and no client has been answered. Then it is killed. What becomes of the four writes?",
        (
            Answer("They are committed by the next leader, which found them in its log.", _all_committed),
            Answer("They are gone: nobody was told that they were done.", _none_committed),
            Answer("Each peer keeps those that it has.", _some_committed),
        ),
        Moment("leader_established", {"epoch": 2}),
        look_at="The new leader's last zxid when it is established, beside what had been committed before.",
        explanation=(
            "ZAB promises that what was acknowledged is never lost. It does not promise that what was not "
            "acknowledged is. A new leader is whoever has the longest history among a quorum, and all of that "
            "history, committed or not, is the beginning of its epoch: it brings its followers to it before it "
            "serves. Had the peers died before they logged the proposals, or had another quorum elected a peer "
            "without them, they would have been cut off instead. So a client whose connection broke knows nothing of "
            "its last write, and has to look."
        ),
    ),
    Lesson(
        "quorum-lost",
        "Two of three peers are gone",
        "quorum-lost",
        "Two of three ZooKeeper servers die. A producer goes on with acks=all; some seconds later the leader of its "
        "partition dies too. What does the producer meet?",
        (
            Answer("Nothing is acknowledged from the moment on when the quorum is lost.", _nothing_acknowledged),
            Answer(
                "Its records are acknowledged, and another replica leads as soon as the dead one's session is over.",
                _as_if_nothing_had_happened,
            ),
            Answer(
                "Its records are acknowledged as before, until the leader dies; then there is none before a quorum "
                "serves.",
                _served_but_nobody_elected,
            ),
        ),
        Moment("leader_elected", {"leader_epoch": 1}),
        look_at=(
            "The peers' tracks beside the partition's: it is led while no peer serves, and is not led after its "
            "leader's death although an ISR member lives."
        ),
        explanation=(
            "Records do not pass through ZooKeeper. Brokers serve by what they were told last: a leader leads in its "
            "leader epoch until somebody with a higher one says otherwise. What needs a quorum is every decision: no "
            "session ends, for only a leader of the ensemble can say so, no controller is elected, and no ISR is "
            "written. So a follower that lags now would hold up acks=all for ever. When a quorum serves again every "
            "session gets its full time-out anew, and only then is the dead leader's loss noticed."
        ),
    ),
)
