"""The state machine of a transactional id. The cases are from TransactionMetadataTest, KIP-98 and KIP-360."""

from __future__ import annotations

import pytest

from zabka.broker_sim.transactions.metadata import (
    EPOCH_MAX,
    VALID_PREVIOUS,
    IllegalTransition,
    ProducerFenced,
    TransactionMetadata,
    TransactionState,
    Transition,
)
from zabka.journal.events import TopicPartition

S = TransactionState
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
TIMEOUT_MS = 60_000


def an_id(epoch: int = 3, state: TransactionState = S.EMPTY, *partitions: TopicPartition) -> TransactionMetadata:
    start_ms = -1 if state is S.EMPTY else 900
    return TransactionMetadata(
        "t", 17, TIMEOUT_MS, 1_000, producer_epoch=epoch, state=state, partitions=partitions, start_ms=start_ms
    )


def complete(metadata: TransactionMetadata, to: Transition) -> None:
    metadata.complete(to)
    assert metadata.pending_state is None and metadata.state is to.state


def test_transaction_commits_and_the_next_one_begins() -> None:
    metadata = an_id(epoch=-1)
    complete(metadata, metadata.prepare_next_epoch(TIMEOUT_MS, None, 1_001))
    assert (metadata.producer_epoch, metadata.last_producer_epoch) == (0, -1)
    complete(metadata, metadata.prepare_add([P0], 1_002))
    complete(metadata, metadata.prepare_add([P1], 1_003))
    assert (list(metadata.partitions), metadata.start_ms, metadata.update_ms) == ([P0, P1], 1_002, 1_003)
    complete(metadata, metadata.prepare_end(True, 1_004))
    metadata.marker_written(P0)
    assert list(metadata.partitions) == [P1]
    complete(metadata, metadata.prepare_complete(1_005))
    assert (metadata.state, list(metadata.partitions), metadata.start_ms) == (S.COMPLETE_COMMIT, [], 1_002)
    complete(metadata, metadata.prepare_add([P1], 1_006))
    assert metadata.start_ms == 1_006


@pytest.mark.parametrize("state", list(S))
def test_transition_is_prepared_only_from_its_valid_states(state: TransactionState) -> None:
    prepared = {
        S.EMPTY: lambda metadata: metadata.prepare_next_epoch(TIMEOUT_MS, None, 2_000),
        S.ONGOING: lambda metadata: metadata.prepare_add([P0], 2_000),
        S.PREPARE_COMMIT: lambda metadata: metadata.prepare_end(True, 2_000),
        S.PREPARE_ABORT: lambda metadata: metadata.prepare_end(False, 2_000),
        S.DEAD: lambda metadata: metadata.prepare_dead(),
        S.PREPARE_EPOCH_FENCE: lambda metadata: metadata.prepare_fence(),
    }
    for target, prepare in prepared.items():
        metadata = an_id(3, state)
        if state in VALID_PREVIOUS[target]:
            assert prepare(metadata).state is target
        else:
            with pytest.raises(IllegalTransition):
                prepare(metadata)


def test_second_transition_waits_for_the_pending_one() -> None:
    metadata = an_id()
    metadata.prepare_add([P0], 2_000)
    with pytest.raises(IllegalTransition, match="pending"):
        metadata.prepare_add([P1], 2_000)


def test_transition_that_was_not_prepared_is_rejected() -> None:
    metadata = an_id()
    to = metadata.prepare_add([P0], 2_000)
    with pytest.raises(IllegalTransition):
        metadata.complete(to._replace(state=S.EMPTY))
    with pytest.raises(IllegalTransition):
        metadata.complete(to._replace(producer_epoch=4))
    with pytest.raises(IllegalTransition):
        metadata.complete(to._replace(timeout_ms=1))
    assert metadata.state is S.EMPTY


def test_producer_with_the_current_epoch_gets_the_next_epoch() -> None:
    metadata = an_id(3)
    complete(metadata, metadata.prepare_next_epoch(TIMEOUT_MS, 3, 2_000))
    assert (metadata.producer_epoch, metadata.last_producer_epoch) == (4, 3)


def test_repeated_init_producer_id_returns_the_current_epoch() -> None:
    metadata = an_id(3)
    complete(metadata, metadata.prepare_next_epoch(TIMEOUT_MS, 3, 2_000))
    complete(metadata, metadata.prepare_next_epoch(TIMEOUT_MS, 3, 2_001))
    assert (metadata.producer_epoch, metadata.last_producer_epoch) == (4, 3)


def test_producer_with_an_older_epoch_is_fenced() -> None:
    metadata = an_id(3)
    complete(metadata, metadata.prepare_next_epoch(TIMEOUT_MS, 3, 2_000))
    complete(metadata, metadata.prepare_next_epoch(TIMEOUT_MS, None, 2_001))
    with pytest.raises(ProducerFenced):
        metadata.prepare_next_epoch(TIMEOUT_MS, 3, 2_002)
    assert metadata.pending_state is None


def test_exhausted_epochs_require_a_new_producer_id() -> None:
    metadata = an_id(EPOCH_MAX - 2)
    assert not metadata.is_epoch_exhausted
    complete(metadata, metadata.prepare_next_epoch(TIMEOUT_MS, None, 2_000))
    assert metadata.is_epoch_exhausted and metadata.producer_epoch == 32_766
    with pytest.raises(IllegalTransition):
        metadata.prepare_next_epoch(TIMEOUT_MS, None, 2_001)
    complete(metadata, metadata.prepare_new_producer_id(99, 5_000, 2_002, records_last_epoch=True))
    assert (metadata.producer_id, metadata.last_producer_id, metadata.timeout_ms) == (99, 17, 5_000)
    assert (metadata.producer_epoch, metadata.last_producer_epoch) == (0, 32_766)


def test_producer_id_does_not_change_during_a_transaction() -> None:
    with pytest.raises(IllegalTransition):
        an_id(EPOCH_MAX - 1, S.ONGOING, P0).prepare_new_producer_id(99, 5_000, 2_000, records_last_epoch=False)


def test_fencing_increments_the_producer_epoch_used_by_the_abort() -> None:
    metadata = an_id(3, S.ONGOING, P0)
    fence = metadata.prepare_fence()
    assert (fence.producer_epoch, metadata.producer_epoch) == (4, 3)
    with pytest.raises(IllegalTransition):
        metadata.complete(fence)
    metadata.fence_now(fence.producer_epoch)
    complete(metadata, metadata.prepare_end(False, 2_000))
    assert (metadata.state, metadata.producer_epoch) == (S.PREPARE_ABORT, 4)


def test_retry_of_a_failed_fencing_does_not_increment_the_epoch() -> None:
    metadata = an_id(3, S.ONGOING, P0)
    metadata.fence_now(metadata.prepare_fence().producer_epoch)
    metadata.has_failed_epoch_fence = True
    fence = metadata.prepare_fence()
    assert fence.producer_epoch == 4
    metadata.fence_now(4)
    complete(metadata, metadata.prepare_end(False, 2_000))
    metadata.prepare_complete(2_001)
    assert not metadata.has_failed_epoch_fence


def test_fencing_does_not_increment_the_largest_producer_epoch() -> None:
    metadata = an_id(EPOCH_MAX - 1, S.ONGOING, P0)
    assert metadata.prepare_fence().producer_epoch == 32_767
    metadata.fence_now(EPOCH_MAX)
    with pytest.raises(IllegalTransition):
        metadata.prepare_fence()


def test_marker_is_illegal_except_in_the_prepare_states() -> None:
    with pytest.raises(IllegalTransition):
        an_id(3, S.ONGOING, P0).marker_written(P0)


def test_transaction_times_out_after_its_own_timeout() -> None:
    metadata = an_id(3, S.ONGOING, P0)
    assert not metadata.has_timed_out(900 + TIMEOUT_MS)
    assert metadata.has_timed_out(901 + TIMEOUT_MS)
    metadata.prepare_end(True, 2_000)
    assert not metadata.has_timed_out(901 + TIMEOUT_MS)


@pytest.mark.parametrize("state", list(S))
def test_transactional_id_expires_only_in_idle_states(state: TransactionState) -> None:
    idle = state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
    assert an_id(3, state).is_expired(1_500, 500) is idle
    assert not an_id(3, state).is_expired(1_499, 500)
