"""Lessons about who decides: the controller, its session, and its epoch."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.simulation.lessons.lesson import PARTITION, Answer, Lesson, Moment, Scene

AT_ONCE_US = 1_000_000


def _gap_us(scene: Scene) -> int:
    """From the loss of the controller before to the moment."""
    lost_us = scene.state.reigns[-2].holder_lost_us
    return scene.entry.wall_us - lost_us if lost_us is not None else 0


def _old_controller_is_back(scene: Scene) -> bool:
    return scene.state.reigns[-1].broker_id == scene.state.reigns[-2].broker_id


def _replaced_at_once(scene: Scene) -> bool:
    return not _old_controller_is_back(scene) and _gap_us(scene) < AT_ONCE_US


def _replaced_after_its_session(scene: Scene) -> bool:
    ended_by = scene.state.reigns[-2].ended_by
    return not _old_controller_is_back(scene) and _gap_us(scene) >= AT_ONCE_US and ended_by == "session_expired"


def _goes_on_deciding(scene: Scene) -> bool:
    """The old controller writes something after it woke up."""
    own = scene.event.controller_epoch
    written = [told.controller_epoch for told in scene.later(e.LeaderElected)]
    return own in (*written, *(told.controller_epoch for told in scene.later(e.IsrChanged)))


def _is_told_by_its_own_clock(scene: Scene) -> bool:
    """It resigned before it had spoken with the ensemble: without a refused write, and without an expired session."""
    return not _goes_on_deciding(scene) and scene.event.reason not in ("session_expired", "controller_moved")


def _is_told_by_the_ensemble(scene: Scene) -> bool:
    return not _goes_on_deciding(scene) and scene.event.reason in ("session_expired", "controller_moved")


def _led_again_by_itself(scene: Scene) -> bool:
    """The preferred replica led again before anybody asked."""
    preferred = scene.event.replicas[0]
    elected = [event for event in scene.earlier(e.LeaderElected) if (event.topic, event.partition) == ("orders", 0)]
    return any(event.leader == preferred for event in elected[1:])


def _led_again_when_asked(scene: Scene) -> bool:
    asked = isinstance(scene.chain.steps[-1].event, e.AdminRequested)
    return bool(asked and not _led_again_by_itself(scene) and scene.event.leader == scene.event.replicas[0])


def _never_led_again(scene: Scene) -> bool:
    return bool(scene.final_state.partitions[PARTITION].leader != scene.event.replicas[0])


def _target(scene: Scene) -> set[int]:
    """Who is to have the partition in the end, by the controller's own word before it died."""
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
        "The broker that is controller is killed with SIGKILL. Its connections to the ensemble break that instant. "
        "When does another broker become controller?",
        (
            Answer("At once: the ensemble sees the connection break, and /controller goes.", _replaced_at_once),
            Answer(
                "Seconds later, when its session has expired: a connection that breaks ends no session.",
                _replaced_after_its_session,
            ),
            Answer("When it has been started again: the office waits for its holder.", _old_controller_is_back),
        ),
        Moment("controller_elected", {"controller_epoch": 2}),
        look_at="The controller's track: from the kill to the expiry the reign goes on, and nobody acts.",
        explanation=(
            "/controller is an ephemeral znode: it lives as long as the session that made it, and a session ends only "
            "when nothing has been heard of it for its time-out (zookeeper.session.timeout.ms, rounded up to a tick). "
            "A broken connection says nothing, for clients move from server to server all the time. Until then every "
            "broker goes on believing in the dead controller: partitions whose leaders died with it have no leader, "
            "ISRs do not change, and nothing is reassigned. When the session is closed, its ephemerals go in the same "
            "transaction, watches fire, and the first broker to create /controller anew has won, with a controller "
            "epoch that is higher by one."
        ),
    ),
    Lesson(
        "zombie-controller",
        "A controller wakes up from a long pause",
        "zombie-controller",
        "The controller is frozen for longer than its session, say by a long garbage collection. Another broker has "
        "become controller. Then the old one wakes up, and still believes in itself. What ends its reign?",
        (
            Answer(
                "The ensemble: the first server it speaks with says that the session has expired.",
                _is_told_by_the_ensemble,
            ),
            Answer("Its own clock: it sees that its session must be over, and asks nobody.", _is_told_by_its_own_clock),
            Answer("Nothing: it goes on deciding until somebody stops it.", _goes_on_deciding),
        ),
        Moment("controller_resigned", {"controller_epoch": 1}),
        look_at=(
            "The belief of the woken broker: hatched, since it is wrong, until it resigns. Compare the play with its "
            "bug, in which the woken controller removes the other one's znode."
        ),
        explanation=(
            "A process cannot know how long it was stopped. So whatever a woken controller writes before it has heard "
            "the news must do no harm. Since Kafka 2.1 (KAFKA-6082) each of its writes is a transaction together with "
            "a check of /controller_epoch's version: the ensemble refuses all of it once another reign has begun. "
            "Before that a zombie could overwrite partition states, and even delete the new controller's znode, which "
            "is what the play with the bug shows: one election after the other."
        ),
    ),
    Lesson(
        "preferred-leader",
        "A leader comes back, and does not lead",
        "preferred-election",
        "A partition's leader was killed and another replica leads. The first one is started again, catches up and is "
        "in sync. It is the first of the assignment, so the preferred leader. When does it lead again?",
        (
            Answer("As soon as it is in sync again.", _led_again_by_itself),
            Answer("When an election of the preferred leader is asked for.", _led_again_when_asked),
            Answer("Only when the present leader dies.", _never_led_again),
        ),
        Moment("leader_elected", {"cause": "preferred"}),
        look_at="The ISR lane: the first replica is in sync for a second before it leads.",
        explanation=(
            "A change of leader costs a moment without one, so Kafka does not change what works. Leadership goes back "
            "by an election of the preferred leader: an operator asks for it (kafka-leader-election.sh, KIP-460), or "
            "the controller does by itself, every leader.imbalance.check.interval.seconds, where too many partitions "
            "of a broker are led by others (auto.leader.rebalance.enable). It takes place only where the preferred "
            "replica lives and is in sync, so nothing is lost by it."
        ),
    ),
    Lesson(
        "reassignment-interrupted",
        "The controller dies in the middle of a reassignment",
        "reassignment-interrupted",
        "A partition is being moved from brokers A, B to B, C. The controller is killed before C has caught up. What "
        "becomes of the move?",
        (
            Answer("The next controller ends it: the partition is on B and C.", _ends_with_the_target),
            Answer("It is forgotten: the partition stays on A and B.", _is_forgotten),
            Answer("It stays half done, on A, B and C, until somebody asks again.", _stays_half_done),
        ),
        Moment("leader_elected", {"controller_epoch": 2}),
        look_at="What the new controller does first, and the assignment when the play is over.",
        explanation=(
            "Before it moves anything the controller writes into /brokers/topics/T who is being added and who removed "
            "(adding_replicas and removing_replicas, KIP-455). The steps are such that each may be done again: first "
            "all replicas together, then, once the target is in sync, a leader among the target, then the others go. "
            "So a new controller needs no memory of its predecessor's: it reads the znode and goes on. The leader "
            "epoch rises with it, so that nobody acts on what the dead one had said."
        ),
    ),
)
