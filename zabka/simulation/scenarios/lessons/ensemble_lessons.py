"""Lessons about the ensemble: its leader, its commits, and the effects of a lost quorum."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.simulation.scenarios.lessons.lesson import Answer, Lesson, Moment, Scene


def _answered(scene: Scene) -> int:
    """Return the highest zxid acknowledged to a client before the lesson's decisive event."""
    return max((told.zxid for told in scene.earlier(e.WriteAcknowledged)), default=0)


def _proposed(scene: Scene) -> set[int]:
    """Return the zxids that the old leader proposed and did not acknowledge to a client."""
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
    """Return the number of records acknowledged while two of the three peers were down."""
    entries = scene.entries[: scene.place]
    lost = [n for n, entry in enumerate(entries) if _is_crash(entry.event, "peer")]
    back = [n for n, entry in enumerate(entries) if isinstance(entry.event, e.LeaderEstablished) and n > lost[-1]]
    return sum(isinstance(entry.event, e.RecordsAcknowledged) for entry in entries[lost[-1] : back[0]])


def _is_crash(event: e.Event, role: str) -> bool:
    return isinstance(event, e.FaultInjected) and event.kind == "crash" and event.target.startswith(role)


def _elected_without_quorum(scene: Scene) -> bool:
    """Whether another leader was elected before the ensemble had a quorum again."""
    return scene.earlier(e.LeaderEstablished)[-1].epoch == 1


def _nothing_acknowledged(scene: Scene) -> bool:
    return _acknowledged_without_quorum(scene) == 0


def _served_without_an_election(scene: Scene) -> bool:
    return _acknowledged_without_quorum(scene) > 0 and not _elected_without_quorum(scene)


def _as_if_nothing_had_happened(scene: Scene) -> bool:
    return _acknowledged_without_quorum(scene) > 0 and _elected_without_quorum(scene)


ENSEMBLE_LESSONS: tuple[Lesson, ...] = (
    Lesson(
        "zab-leader-killed",
        "The ensemble's leader is killed during writes",
        "zab-leader-killed",
        "The leader of a ZooKeeper ensemble has proposed four writes. The proposals have been sent, no "
        "acknowledgement has arrived, and no client has received a reply. Then the leader is killed. What happens "
        "to the four writes?",
        (
            Answer("The next leader commits them, because it has them in its log.", _all_committed),
            Answer("They are lost: no client received a reply.", _none_committed),
            Answer("Each peer keeps those that it has.", _some_committed),
        ),
        Moment("leader_established", {"epoch": 2}),
        look_at="The new leader's last zxid when it is established, compared with what had been committed before.",
        explanation=(
            "ZAB guarantees that an acknowledged write is never lost, but not that an unacknowledged write is lost. "
            "The new leader is the peer with the longest history among a quorum. Its whole history, committed or not, "
            "is the initial history of its epoch: it synchronises its followers to it before it serves. If the peers "
            "had died before they logged the proposals, or if another quorum had elected a peer without them, the "
            "writes would have been truncated. So a client whose connection broke has to read its last write to learn "
            "its outcome."
        ),
    ),
    Lesson(
        "quorum-lost",
        "Two of three peers die",
        "quorum-lost",
        "Two of three ZooKeeper servers die. A producer keeps sending with acks=all. Some seconds later the leader "
        "of its partition dies too. What does the producer see?",
        (
            Answer("No record is acknowledged after the quorum is lost.", _nothing_acknowledged),
            Answer(
                "Its records are acknowledged, and another replica becomes leader as soon as the dead leader's "
                "session has expired.",
                _as_if_nothing_had_happened,
            ),
            Answer(
                "Its records are acknowledged until the leader dies. Then there is no leader until there is a quorum.",
                _served_without_an_election,
            ),
        ),
        Moment("leader_elected", {"leader_epoch": 1}),
        look_at=(
            "The peers' tracks and the partition's lanes: the partition has a leader while no peer serves. After "
            "its leader's death it has none, although an ISR member is alive."
        ),
        explanation=(
            "Records do not pass through ZooKeeper: a leader leads in its leader epoch until it receives a higher "
            "epoch. But without a quorum no session expires, because only a leader of the ensemble can expire it, no "
            "controller is elected, and no ISR is written. So a follower that lags now would block acks=all. Once "
            "there is a quorum again, every session gets its full timeout again, and only then is the dead leader "
            "replaced."
        ),
    ),
)
