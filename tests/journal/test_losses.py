"""Lost records of a partition: each lost offset is counted once."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.events import Entry
from zabka.journal.fold import fold
from zabka.journal.losses import LostRecords, committed_records_lost, lost_by_partition


def lost(
    broker: int, partition: int, first: int, last: int, committed: int, *, older: bool = False, topic_id: str = ""
) -> Entry:
    event = e.RecordsLost(broker, "t", partition, first, last, last - first + 1, committed, "x")
    event.committed_at_least = -1 if older else committed
    event.topic_id = topic_id
    return Entry(f"broker-{broker}", 1, 1, 1, event)


def test_offset_lost_by_several_replicas_counts_once() -> None:
    losses = fold([lost(1, 0, 100, 149, 20), lost(2, 0, 90, 149, 40), lost(3, 0, 200, 200, 0)]).losses
    assert lost_by_partition(losses, {}) == {"t-0": LostRecords(61, 40)}


def test_adjacent_losses_are_added_within_each_partition() -> None:
    losses = fold([lost(1, 0, 10, 19, 10), lost(2, 0, 20, 29, 3), lost(2, 1, 0, 4, 5)]).losses
    assert lost_by_partition(losses, {}) == {"t-0": LostRecords(20, 13), "t-1": LostRecords(5, 5)}


def test_committed_losses_in_older_journals_are_counted() -> None:
    losses = fold([lost(1, 0, 10, 19, 4, older=True)]).losses
    assert lost_by_partition(losses, {}) == {"t-0": LostRecords(10, 4)}


def test_losses_of_a_deleted_topic_do_not_count_for_a_new_topic() -> None:
    losses = fold([lost(1, 0, 0, 9, 10, topic_id="old"), lost(2, 0, 5, 9, 3, topic_id="new")]).losses
    assert lost_by_partition(losses, {"t": "new"}) == {"t-0": LostRecords(5, 3)}
    assert lost_by_partition(losses, {"t": "newest"}) == {}
    assert committed_records_lost(losses) == 13


def test_loss_below_any_replicas_high_watermark_is_committed() -> None:
    """A lost record counts as committed if any replica had a high watermark above it in the same log.

    Leader 1 reported high watermark 18 in leader epoch 3, so eight of the lost offsets 10 to 19 were committed.
    Follower 2 knew that five were committed. The high watermarks of leader epoch 4, and those of the follower before
    its high watermark increased, belong to other logs.
    """

    def progressed(broker: int, high_watermark: int) -> Entry:
        return Entry(f"broker-{broker}", 1, 1, 1, e.ReplicaProgressed(broker, [("t", 0, high_watermark, 90)]))

    history = [
        Entry("broker-1", 1, 1, 1, e.LeadershipTaken(1, "t", 0, leader_epoch=3, log_end_offset=10, high_watermark=8)),
        Entry("broker-2", 1, 1, 1, e.FollowershipTaken(2, "t", 0, leader=1, leader_epoch=3, log_end_offset=10)),
        *(progressed(*report) for report in ((2, 40), (2, 9), (2, 15), (1, 18))),
        Entry("broker-3", 1, 1, 1, e.LeadershipTaken(3, "t", 0, leader_epoch=4, log_end_offset=10, high_watermark=8)),
        progressed(3, 30),
        lost(2, 0, 10, 19, 5),
    ]
    history[-1].event.leader_epoch = 3  # type: ignore[attr-defined]
    (loss,) = fold(history).losses
    assert (loss.below_high_watermark, loss.committed_at_least) == (5, 8)
