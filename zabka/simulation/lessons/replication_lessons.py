"""Lessons about records: who has them, when they are committed, and how they are lost."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.judges.kafka_analysis import ACKS_ALL
from zabka.simulation.lessons.lesson import Answer, Lesson, Moment, Scene


def _nobody_leads(scene: Scene) -> bool:
    return scene.partition.leader == -1


def _new_leader_and_the_dead_one(scene: Scene) -> bool:
    return not _nobody_leads(scene) and len(scene.partition.isr) > 1


def _new_leader_alone(scene: Scene) -> bool:
    return scene.partition.isr == [scene.partition.leader]


def _waiting_offset(scene: Scene) -> int:
    """The offset that the leader had appended and its follower lacked, when the ISR shrank."""
    proposed = scene.earlier(e.IsrProposed)[-1]
    return proposed.moved[0].log_end_offset


def _is_acknowledged(told: list[e.RecordsAcknowledged], offset: int) -> bool:
    return any(event.acks == ACKS_ALL and event.last_offset >= offset for event in told)


def _acknowledged_before_it_left(scene: Scene) -> bool:
    return _is_acknowledged(scene.earlier(e.RecordsAcknowledged), _waiting_offset(scene))


def _acknowledged_without_it(scene: Scene) -> bool:
    """After the ISR had shrunk, and before the follower came back into it."""
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
    return not _nobody_leads(scene) and _some_are_lost(scene)


def _led_and_kept(scene: Scene) -> bool:
    return not _nobody_leads(scene) and not _some_are_lost(scene)


def _cut_to_the_high_watermark(scene: Scene) -> bool:
    mark = [
        told.high_watermark for told in scene.earlier(e.HighWatermarkMoved) if told.broker_id == scene.event.broker_id
    ]
    return bool(mark[-1:] == [scene.event.to_offset] and scene.event.from_offset > scene.event.to_offset)


def _committed_offset(scene: Scene) -> int:
    """Where the highest high watermark stood that any leader had told."""
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


def _still_led_by_who_is_not_heard(scene: Scene) -> bool:
    return bool(scene.event.leader == scene.event.previous)


def _led_by_another(scene: Scene) -> bool:
    expired = any(isinstance(step.event, e.SessionExpired) for step in scene.chain.steps)
    return expired and scene.event.leader not in (-1, scene.event.previous)


REPLICATION_LESSONS: tuple[Lesson, ...] = (
    Lesson(
        "leader-killed",
        "A partition's leader is killed",
        "leader-killed",
        "A partition has two replicas, both in sync. Its leader is killed, and the controller hears of it. How does "
        "the partition's state look that it writes?",
        (
            Answer(
                "The other replica leads; the dead one stays in the ISR until it lags.", _new_leader_and_the_dead_one
            ),
            Answer("The other replica leads, alone in the ISR.", _new_leader_alone),
            Answer("Nobody leads: with one replica left the partition is offline.", _nobody_leads),
        ),
        Moment("leader_elected", {"leader_epoch": 1}),
        look_at=(
            "The partition's lanes: one lane ends, the other becomes thick, and the leader epoch is higher by one."
        ),
        explanation=(
            "Every member of the ISR has all that was committed, so any living one may lead, and the first of them in "
            "the assignment does. The controller writes leader, ISR and leader epoch in one znode, and leaves out of "
            "the ISR whoever is dead: it need not wait for replica.lag.time.max.ms, for it knows. The dead broker's "
            "log may hold records beyond what was committed; when it comes back it follows in the new epoch and cuts "
            "them off."
        ),
    ),
    Lesson(
        "follower-lags",
        "A follower falls behind, and comes back",
        "follower-lags",
        "A follower's link to its leader is cut. At once a producer sends a record with acks=all; min.insync.replicas "
        "is 1. When is the record acknowledged?",
        (
            Answer("At once: one replica is enough, and the leader has it.", _acknowledged_before_it_left),
            Answer("When the follower has left the ISR.", _acknowledged_without_it),
            Answer("When the follower is back, and has it.", _acknowledged_with_it),
        ),
        Moment("isr_changed", {"cause": "lag"}),
        look_at="The high watermark: it stands still from the cut on, and moves with the change of the ISR.",
        explanation=(
            "acks=all waits for all who are in sync, however few min.insync.replicas asks for: that key only says "
            "below which number nothing is taken at all. So a follower that is silent holds every record up, until "
            "its leader has missed it for replica.lag.time.max.ms, proposes an ISR without it, and the controller has "
            "written that. Before the answer the leader still counts the follower in, since the controller could be "
            "electing it just then. To come back a follower needs all that is committed, and all from before its "
            "leader's epoch: not the whole log."
        ),
    ),
    Lesson(
        "last-replica",
        "The last replica in sync dies",
        "jepsen-2013",
        "The ISR of a partition has shrunk to its leader, which goes on acknowledging. Then the leader dies. Another "
        "replica lives, without the last four records, and unclean.leader.election.enable is true. What happens?",
        (
            Answer("The partition waits: only the dead replica has everything.", _nobody_leads),
            Answer("The other replica leads, and gets the four records when the dead one returns.", _led_and_kept),
            Answer("The other replica leads, and the four acknowledged records are lost.", _led_and_lost),
        ),
        Moment("leader_elected", {"unclean": True}, with_bug=True),
        look_at=(
            "The election is marked unclean. Compare it with the same outage under "
            "unclean.leader.election.enable=false: there nobody leads until the dead replica is back, and nothing is "
            "lost."
        ),
        explanation=(
            "Outside the ISR nobody is known to have everything. Kafka's default is to wait: no leader, and the last "
            "member stays in the ISR although it is dead, for it alone will do. With unclean elections the first "
            "living replica leads, and its log is the partition's from then on. When the old leader comes back it has "
            "to cut off what the new one never had, acknowledged or not: a log is one history. An operator can also "
            "ask for one such election, for one partition, with kafka-leader-election.sh --election-type unclean."
        ),
    ),
    Lesson(
        "high-watermark",
        "A follower cuts off what was committed",
        "kafka-1211",
        "A record is on all three replicas and acknowledged. A follower has it, but has not yet been told that it is "
        "committed: its high watermark is one below. The leader dies, and the follower follows another leader. Before "
        "Kafka 0.11: what does it cut off its log?",
        (
            Answer("Nothing that was committed: only what the new leader does not have.", _cut_what_was_not_committed),
            Answer("What lies behind the place where its log and the new leader's part.", _cut_where_the_logs_part),
            Answer("The record, though it was committed: it cuts at its own high watermark.", _cut_what_was_committed),
        ),
        Moment("log_truncated", {"cause": "high_watermark", "from_offset": 6}, with_bug=True),
        look_at=(
            "Both plays side by side part here. If the new leader dies now, before the follower has fetched the "
            "record again, the follower leads without it."
        ),
        explanation=(
            "A follower learns the high watermark with its next fetch, so its own is always a round trip old. To cut "
            "there is safe for agreement, and not for what was acknowledged: two leaders that die one after the other "
            "lose a committed record, and logs can part for good (KAFKA-1211). Since KIP-101 each record carries the "
            "epoch of the leader that took it, and each leader remembers where each epoch began. Today a follower "
            "says with its fetch which epoch its last record is of, and the leader answers where their histories "
            "part: only what lies behind that is cut."
        ),
    ),
    Lesson(
        "acks",
        "acks=1, and a broker that is stopped cleanly",
        "acks-1-planned-move",
        "A producer with acks=1 has sent two records, and both are acknowledged. Before the follower has fetched them "
        "the leader is stopped cleanly, with a controlled shutdown. What becomes of the records?",
        (
            Answer("They are kept: a clean stop hands everything over first.", _nothing_lost),
            Answer("They are lost, since the election was unclean.", _lost_as_unclean),
            Answer("They are lost, although nothing failed and the election was clean.", _lost_though_clean),
        ),
        Moment("log_truncated", {"cause": "diverging_epoch"}, with_bug=True),
        look_at=(
            "The stopped broker comes back and cuts off what it had acknowledged. With acks=all, in the other play, "
            "the same records are not acknowledged before the move, and the producer sends them again."
        ),
        explanation=(
            "acks=1 asks the leader alone. A controlled shutdown moves leadership to a replica that is in sync, which "
            "means that it was level within replica.lag.time.max.ms, and not that it has every record. What the "
            "leader took in its last moments is not committed, and the next leader does not know of it. With acks=all "
            "the producer would have waited for the high watermark, got an error, and sent the records to the new "
            "leader. This works as designed, and is why acks=1 is for what may be lost."
        ),
    ),
    Lesson(
        "cut-one-way",
        "A link is cut one way",
        "cut-one-way",
        "A partition's leader hears the ensemble, and the ensemble does not hear it: the link is cut one way. Between "
        "the brokers all is well. Who leads the partition some seconds later?",
        (
            Answer("Another one: nothing was heard of its session, so it expired.", _led_by_another),
            Answer("The same broker: it hears the ensemble, so its session stands.", _still_led_by_who_is_not_heard),
            Answer("Nobody: with a broken link the controller waits.", _nobody_leads),
        ),
        Moment("leader_elected", {"leader_epoch": 1}),
        look_at="The old leader's belief: it is asked to follow, and does, long before it registers again.",
        explanation=(
            "A session is kept alive by what the servers hear, not by what the client does: pings that do not arrive "
            "are no pings. When the time-out has passed the ensemble's leader closes the session, the broker's "
            "ephemeral goes, and the controller elects another leader. The old one can be told by the controller, "
            "since the brokers' links are whole; were it cut off from those too, it would go on taking acks=1 records "
            "in an epoch that is over. With acks=all nothing of that is acknowledged, because nobody fetches from it "
            "any more."
        ),
    ),
)
