"""Lessons about records: which replicas have them, when they are committed, and how they are lost."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.checkers.kafka_analysis import ACKS_ALL
from zabka.simulation.scenarios.lessons.lesson import Answer, Lesson, Moment, Scene


def _no_leader(scene: Scene) -> bool:
    return scene.partition.leader == -1


def _new_leader_and_the_dead_one(scene: Scene) -> bool:
    return not _no_leader(scene) and len(scene.partition.isr) > 1


def _new_leader_alone(scene: Scene) -> bool:
    return scene.partition.isr == [scene.partition.leader]


def _waiting_offset(scene: Scene) -> int:
    """Return the follower's log end offset when it left the ISR: the offset of the first record that it lacked."""
    proposed = scene.earlier(e.IsrProposed)[-1]
    return proposed.moved[0].log_end_offset


def _is_acknowledged(told: list[e.RecordsAcknowledged], offset: int) -> bool:
    return any(event.acks == ACKS_ALL and event.last_offset >= offset for event in told)


def _acknowledged_before_it_left(scene: Scene) -> bool:
    return _is_acknowledged(scene.earlier(e.RecordsAcknowledged), _waiting_offset(scene))


def _acknowledged_without_it(scene: Scene) -> bool:
    """Whether the record was acknowledged while the follower was outside the ISR."""
    offset, back = _waiting_offset(scene), False
    for entry in scene.entries[scene.place + 1 :]:
        back = back or (isinstance(entry.event, e.IsrChanged) and entry.event.cause == "caught_up")
        if isinstance(entry.event, e.RecordsAcknowledged) and entry.event.last_offset >= offset:
            return not back and not _acknowledged_before_it_left(scene)
    return False


def _acknowledged_with_it(scene: Scene) -> bool:
    return not _acknowledged_before_it_left(scene) and not _acknowledged_without_it(scene)


def _some_are_lost(scene: Scene) -> bool:
    return bool(scene.final_state.losses)


def _led_and_lost(scene: Scene) -> bool:
    return not _no_leader(scene) and _some_are_lost(scene)


def _led_and_kept(scene: Scene) -> bool:
    return not _no_leader(scene) and not _some_are_lost(scene)


def _cut_to_the_high_watermark(scene: Scene) -> bool:
    mark = [
        told.high_watermark for told in scene.earlier(e.HighWatermarkMoved) if told.broker_id == scene.event.broker_id
    ]
    return bool(mark[-1:] == [scene.event.to_offset] and scene.event.from_offset > scene.event.to_offset)


def _committed_offset(scene: Scene) -> int:
    """Return the highest high watermark that any leader reported before the lesson's decisive event."""
    return max(told.high_watermark for told in scene.earlier(e.HighWatermarkMoved) if told.is_leader)


def _cut_what_was_committed(scene: Scene) -> bool:
    return _cut_to_the_high_watermark(scene) and _committed_offset(scene) > scene.event.to_offset


def _cut_what_was_not_committed(scene: Scene) -> bool:
    return bool(_committed_offset(scene) <= scene.event.to_offset)


def _cut_where_the_logs_part(scene: Scene) -> bool:
    return not _cut_to_the_high_watermark(scene) and not _cut_what_was_not_committed(scene)


def _was_unclean(scene: Scene) -> bool:
    return any(told.unclean for told in scene.earlier(e.LeaderElected))


def _lost_though_clean(scene: Scene) -> bool:
    return _some_are_lost(scene) and not _was_unclean(scene)


def _lost_as_unclean(scene: Scene) -> bool:
    return _some_are_lost(scene) and _was_unclean(scene)


def _nothing_lost(scene: Scene) -> bool:
    return not _some_are_lost(scene)


def _still_led_by_a_silent_broker(scene: Scene) -> bool:
    return bool(scene.event.leader == scene.event.previous)


def _led_by_another(scene: Scene) -> bool:
    expired = any(isinstance(step.event, e.SessionExpired) for step in scene.chain.steps)
    return expired and scene.event.leader not in (-1, scene.event.previous)


REPLICATION_LESSONS: tuple[Lesson, ...] = (
    Lesson(
        "leader-killed",
        "A partition's leader is killed",
        "leader-killed",
        "A partition has two replicas, both in the ISR. Its leader is killed, and the controller is notified. "
        "Which partition state does the controller write?",
        (
            Answer(
                "The other replica leads; the dead one stays in the ISR until it lags.", _new_leader_and_the_dead_one
            ),
            Answer("The other replica leads, and is the only one in the ISR.", _new_leader_alone),
            Answer("No replica leads: with one replica left the partition is offline.", _no_leader),
        ),
        Moment("leader_elected", {"leader_epoch": 1}),
        look_at=(
            "The partition's lanes: one lane ends, the other becomes thick, and the leader epoch is higher by one."
        ),
        explanation=(
            "Every member of the ISR has all committed records, so any live member can lead; the first in the "
            "assignment becomes leader. The controller writes leader, ISR and leader epoch in one znode. It removes "
            "the dead replica from the ISR without waiting for replica.lag.time.max.ms. The dead broker's log can "
            "hold uncommitted records. When the broker restarts, it follows in the new epoch and truncates them."
        ),
    ),
    Lesson(
        "follower-lags",
        "A follower falls behind and catches up",
        "follower-lags",
        "A follower's link to its leader is cut. At once a producer sends a record with acks=all; min.insync.replicas "
        "is 1. When is the record acknowledged?",
        (
            Answer("At once: one replica is enough, and the leader has it.", _acknowledged_before_it_left),
            Answer("When the follower has left the ISR.", _acknowledged_without_it),
            Answer("When the follower has caught up and has the record.", _acknowledged_with_it),
        ),
        Moment("isr_changed", {"cause": "lag"}),
        look_at="The high watermark: it does not move after the cut, and moves with the change of the ISR.",
        explanation=(
            "acks=all waits for the whole ISR, however small min.insync.replicas is: that key only sets the ISR size "
            "below which no record is accepted. So a follower that does not fetch blocks every record until its "
            "leader has missed it for replica.lag.time.max.ms and has proposed an ISR without it, and the controller "
            "has written that ISR. Until the response arrives, the leader still counts the follower, because the "
            "controller could be electing it. To join again, a follower needs all committed records, and all records "
            "from before its leader's epoch."
        ),
    ),
    Lesson(
        "last-replica",
        "The last replica of the ISR dies",
        "jepsen-2013",
        "The ISR of a partition has shrunk to its leader, which keeps acknowledging. Then the leader dies. Another "
        "replica is alive, without the last four records, and unclean.leader.election.enable is true. What "
        "happens?",
        (
            Answer("The partition waits: only the dead replica has every record.", _no_leader),
            Answer("The other replica leads, and receives the four records when the dead one restarts.", _led_and_kept),
            Answer("The other replica leads, and the four acknowledged records are lost.", _led_and_lost),
        ),
        Moment("leader_elected", {"unclean": True}, with_bug=True),
        look_at=(
            "The election is marked unclean. In the first run the partition has no leader until the dead replica "
            "restarts, and no record is lost."
        ),
        explanation=(
            "No replica outside the ISR is known to have every committed record. By default Kafka waits: there is no "
            "leader, and the last member stays in the ISR although it is dead, because only it can lead without loss. "
            "With unclean elections the first live replica becomes leader, and its log becomes the partition's log. "
            "When the old leader restarts, it has to truncate what the new leader does not have, acknowledged or not. "
            "kafka-leader-election.sh --election-type unclean requests one such election."
        ),
    ),
    Lesson(
        "high-watermark",
        "A follower truncates committed records",
        "kafka-1211",
        "A record is on all three replicas and acknowledged. A follower has it, but does not know yet that it is "
        "committed: its high watermark is one lower. The leader dies, and the follower follows another leader. "
        "Before Kafka 0.11: what does it truncate?",
        (
            Answer("No committed record: only what the new leader does not have.", _cut_what_was_not_committed),
            Answer(
                "Everything after the offset where its log and the new leader's log diverge.", _cut_where_the_logs_part
            ),
            Answer(
                "The record, although it was committed: it truncates to its own high watermark.",
                _cut_what_was_committed,
            ),
        ),
        Moment("log_truncated", {"cause": "high_watermark", "from_offset": 6}, with_bug=True),
        look_at=(
            "The two runs diverge here, side by side. If the new leader dies now, before the follower has fetched "
            "the record again, the follower becomes leader without it."
        ),
        explanation=(
            "A follower receives the high watermark with its next fetch, so its own is always one round trip old. "
            "Truncating there can lose acknowledged records if two leaders die one after the other, and logs can "
            "diverge permanently (KAFKA-1211). Since KIP-101 each record carries the epoch of the leader that "
            "appended it. Today a follower sends with its fetch the epoch of its last record, and the leader responds "
            "with the offset where their histories diverge: the follower truncates only what comes after it."
        ),
    ),
    Lesson(
        "acks",
        "acks=1, and a broker that is stopped cleanly",
        "acks-1-planned-move",
        "A producer with acks=1 has sent two records, and both are acknowledged. Before the follower has fetched "
        "them the leader is stopped cleanly, with a controlled shutdown. What happens to the records?",
        (
            Answer("They are kept: a clean stop hands everything over first.", _nothing_lost),
            Answer("They are lost, because the election was unclean.", _lost_as_unclean),
            Answer("They are lost, although nothing failed and the election was clean.", _lost_though_clean),
        ),
        Moment("log_truncated", {"cause": "diverging_epoch"}, with_bug=True),
        look_at=(
            "The stopped broker restarts and truncates the records that it had acknowledged. With acks=all, in the "
            "other run, the same records are not acknowledged before the move, and the producer sends them again."
        ),
        explanation=(
            "acks=1 waits for the leader only. A controlled shutdown moves leadership to a replica in the ISR. Such a "
            "replica has caught up within replica.lag.time.max.ms, but need not have the records that the leader "
            "appended in its last moments: they are not committed. With acks=all the producer would have received an "
            "error, and sent the records to the new leader. This works as designed: acks=1 is for records that may be "
            "lost."
        ),
    ),
    Lesson(
        "cut-one-way",
        "A link is cut one way",
        "cut-one-way",
        "A partition's leader receives from the ensemble, but the ensemble does not receive from it: the link is "
        "cut one way. The links between brokers are intact. Which broker leads the partition some seconds later?",
        (
            Answer(
                "Another broker: the ensemble had no contact with its session, so the session expired.", _led_by_another
            ),
            Answer(
                "The same broker: it receives from the ensemble, so its session stays alive.",
                _still_led_by_a_silent_broker,
            ),
            Answer("None: with a broken link the controller waits.", _no_leader),
        ),
        Moment("leader_elected", {"leader_epoch": 1}),
        look_at="The old leader's track “according to broker”: the controller makes it a follower long before it "
        "registers again.",
        explanation=(
            "Only what the servers receive keeps a session alive: a ping that does not arrive has no effect. When the "
            "timeout has passed, the ensemble's leader closes the session, the broker's ephemeral is deleted, and the "
            "controller elects another leader. It can reach the old leader, because the links between brokers are "
            "intact. If those were cut too, the old leader would keep accepting acks=1 records in an epoch that has "
            "ended. With acks=all none of them would be acknowledged, because no replica would fetch from it."
        ),
    ),
)
