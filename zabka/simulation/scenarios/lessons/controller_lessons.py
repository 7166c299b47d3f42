"""Lessons about the controller, its session and its epoch."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.simulation.scenarios.lessons.lesson import PARTITION, Answer, Lesson, Moment, Scene

AT_ONCE_US = 1_000_000


def _gap_us(scene: Scene) -> int:
    """Return the time in µs from the loss of the previous controller to the lesson's decisive event."""
    lost_us = scene.state.controller_terms[-2].holder_lost_us
    return scene.entry.wall_us - lost_us if lost_us is not None else 0


def _old_controller_is_back(scene: Scene) -> bool:
    return scene.state.controller_terms[-1].broker_id == scene.state.controller_terms[-2].broker_id


def _replaced_at_once(scene: Scene) -> bool:
    return not _old_controller_is_back(scene) and _gap_us(scene) < AT_ONCE_US


def _replaced_after_its_session(scene: Scene) -> bool:
    ended_by = scene.state.controller_terms[-2].ended_by
    return not _old_controller_is_back(scene) and _gap_us(scene) >= AT_ONCE_US and ended_by == "session_expired"


def _goes_on_deciding(scene: Scene) -> bool:
    """Whether the old controller changes a partition's state after it resumes."""
    own = scene.event.controller_epoch
    written = [told.controller_epoch for told in scene.later(e.LeaderElected)]
    return own in (*written, *(told.controller_epoch for told in scene.later(e.IsrChanged)))


def _ends_by_its_own_clock(scene: Scene) -> bool:
    """Whether the old controller resigned by its own clock, before a write was rejected or its session expired."""
    return not _goes_on_deciding(scene) and scene.event.reason not in ("session_expired", "controller_moved")


def _ends_by_the_ensemble(scene: Scene) -> bool:
    return not _goes_on_deciding(scene) and scene.event.reason in ("session_expired", "controller_moved")


def _led_again_by_itself(scene: Scene) -> bool:
    """Whether the preferred replica became leader again without a request for an election."""
    preferred = scene.event.replicas[0]
    elected = [event for event in scene.earlier(e.LeaderElected) if (event.topic, event.partition) == ("orders", 0)]
    return any(event.leader == preferred for event in elected[1:])


def _led_again_when_asked(scene: Scene) -> bool:
    asked = isinstance(scene.chain.steps[-1].event, e.AdminRequested)
    return bool(asked and not _led_again_by_itself(scene) and scene.event.leader == scene.event.replicas[0])


def _never_led_again(scene: Scene) -> bool:
    return bool(scene.final_state.partitions[PARTITION].leader != scene.event.replicas[0])


def _target(scene: Scene) -> set[int]:
    """Return the target replicas of the reassignment, from the old controller's event before it was killed."""
    before = [event for event in scene.earlier(e.AssignmentChanged) if event.adding]
    return set(before[0].replicas) - set(before[0].removing)


def _ends_with_the_target(scene: Scene) -> bool:
    return set(scene.final_state.partitions[PARTITION].replicas) == _target(scene)


def _is_forgotten(scene: Scene) -> bool:
    created = scene.earlier(e.TopicCreated)[0].assignment[0]
    return sorted(scene.final_state.partitions[PARTITION].replicas) == sorted(created)


def _stays_half_done(scene: Scene) -> bool:
    return set(scene.final_state.partitions[PARTITION].replicas) > _target(scene)


CONTROLLER_LESSONS: tuple[Lesson, ...] = (
    Lesson(
        "controller-killed",
        "The controller is killed",
        "controller-killed",
        "The broker that is controller is killed with SIGKILL. Its connections to the ensemble break at that "
        "moment. When does another broker become controller?",
        (
            Answer("At once: the ensemble sees the connection break, and deletes /controller.", _replaced_at_once),
            Answer(
                "Seconds later, when its session has expired: a broken connection does not end a session.",
                _replaced_after_its_session,
            ),
            Answer(
                "When it has been started again: the controller role stays empty until then.", _old_controller_is_back
            ),
        ),
        Moment("controller_elected", {"controller_epoch": 2}),
        look_at="The Controller track: from the kill to the expiry the term continues, and no broker acts as "
        "controller.",
        explanation=(
            "/controller is an ephemeral znode: it exists as long as the session that created it. A session ends only "
            "when the ensemble has had no contact with it for its timeout (zookeeper.session.timeout.ms, rounded up "
            "to a tick). A broken connection does not end it, because clients move between servers. Until then, "
            "partitions whose leaders died with the controller have no leader, ISRs do not change, and nothing is "
            "reassigned. The transaction that closes the session deletes its ephemerals, and watches fire. The first "
            "broker to create /controller again becomes controller, with the next controller epoch."
        ),
    ),
    Lesson(
        "zombie-controller",
        "A controller wakes up from a long pause",
        "zombie-controller",
        "The controller is frozen for longer than its session timeout, for example by a long garbage collection. "
        "Another broker has become controller. Then the old one resumes, and still takes itself for controller. "
        "What makes it resign?",
        (
            Answer(
                "The ensemble: the first server that it contacts reports that its session has expired.",
                _ends_by_the_ensemble,
            ),
            Answer(
                "Its own clock: it computes that its session must have expired, without contacting a server.",
                _ends_by_its_own_clock,
            ),
            Answer("Nothing: it keeps deciding until it is stopped.", _goes_on_deciding),
        ),
        Moment("controller_resigned", {"controller_epoch": 1}),
        look_at=(
            "The track “according to broker” of the resumed broker: it is hatched, because it is wrong, until the "
            "broker resigns."
        ),
        explanation=(
            "A process cannot know how long it was stopped, so the writes of a resumed controller must be harmless. "
            "Since Kafka 2.1 (KAFKA-6082) each write is one transaction with a version check of /controller_epoch: "
            "the ensemble rejects it once another controller has been elected. Before that, a zombie controller could "
            "overwrite partition states, and even delete the new controller's znode, as in the run with the bug."
        ),
    ),
    Lesson(
        "preferred-leader",
        "A leader restarts and does not lead",
        "preferred-election",
        "A partition's leader was killed and another replica became leader. The first one restarts, catches up and "
        "is in the ISR again. It is the first replica of the assignment, so it is the preferred leader. When does "
        "it become leader again?",
        (
            Answer("As soon as it is in the ISR again.", _led_again_by_itself),
            Answer("When a preferred leader election is requested.", _led_again_when_asked),
            Answer("Only when the current leader dies.", _never_led_again),
        ),
        Moment("leader_elected", {"cause": "preferred"}),
        look_at="The partition's lanes: the first replica is in the ISR for a second before it becomes leader.",
        explanation=(
            "A change of leader means a moment without a leader, so Kafka does not change a working leader. An "
            "operator requests a preferred leader election (kafka-leader-election.sh, KIP-460), or the controller "
            "starts it every leader.imbalance.check.interval.seconds if other brokers lead too many of a broker's "
            "partitions (auto.leader.rebalance.enable). It takes place only if the preferred replica is alive and in "
            "the ISR, so it loses no records."
        ),
    ),
    Lesson(
        "reassignment-interrupted",
        "The controller dies in the middle of a reassignment",
        "reassignment-interrupted",
        "A partition is being moved from brokers A, B to B, C. The controller is killed before C has caught up. "
        "What happens to the reassignment?",
        (
            Answer("The next controller completes it: the partition is on B and C.", _ends_with_the_target),
            Answer("It is forgotten: the partition stays on A and B.", _is_forgotten),
            Answer("It stays incomplete, on A, B and C, until it is requested again.", _stays_half_done),
        ),
        Moment("leader_elected", {"controller_epoch": 2}),
        look_at="The first actions of the new controller, and the assignment at the end of the run.",
        explanation=(
            "Before it moves anything, the controller writes into /brokers/topics/T which replicas are being added "
            "and removed (adding_replicas and removing_replicas, KIP-455). Every step can be repeated safely: first "
            "all replicas together; then, once the target is in sync, a leader among the target; then the other "
            "replicas are removed. So a new controller reads the znode and continues, with a higher leader epoch, so "
            "that no broker acts on requests of the dead controller."
        ),
    ),
)
