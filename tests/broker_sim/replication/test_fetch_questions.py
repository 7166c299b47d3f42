from __future__ import annotations

from kio.schema.errors import ErrorCode

from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.replication.fetch_questions import FetchQuestions
from zabka.broker_sim.replication.purgatory import Purgatory
from zabka.journal.events import TopicPartition
from zabka.kafka.wire.data_messages import FetchPartition, FetchResponse
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.scheduler import Scheduler

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def row(offset: int) -> FetchPartition:
    return FetchPartition(0, offset, 1000)


def answered(questions: FetchQuestions, session_id: int = 7, error: ErrorCode = ErrorCode.none) -> None:
    questions.answered(FetchResponse(17, (), error, session_id))


def test_fetch_session_starts_full_and_continues_incrementally() -> None:
    questions = FetchQuestions()
    a, b = row(0), row(0)
    first = questions.next({A: a, B: b}, True)
    assert (first.session_id, first.session_epoch, list(first.rows)) == (0, 0, [A, B])
    answered(questions)
    further = row(5)
    second = questions.next({A: further, B: b}, True)
    assert (second.session_id, second.session_epoch, dict(second.rows)) == (7, 1, {A: further})
    answered(questions)
    third = questions.next({A: further}, True)
    assert (third.session_epoch, dict(third.rows), third.forgotten) == (2, {}, [B])


def test_leader_without_a_free_session_slot_returns_full_fetches() -> None:
    questions = FetchQuestions()
    a = row(0)
    for _ in range(3):
        asked = questions.next({A: a}, True)
        assert (asked.session_id, asked.session_epoch, list(asked.rows)) == (0, 0, [A])
        answered(questions, session_id=0)


def test_follower_restarts_a_fetch_session_that_its_leader_lost() -> None:
    questions = FetchQuestions()
    a = row(0)
    questions.next({A: a}, True)
    answered(questions)
    questions.next({A: a}, True)
    answered(questions, session_id=0, error=ErrorCode.fetch_session_id_not_found)
    again = questions.next({A: a}, True)
    assert (again.session_id, again.session_epoch, list(again.rows)) == (0, 0, [A])


def test_switch_between_topic_names_and_ids_starts_a_session() -> None:
    questions = FetchQuestions()
    a = row(0)
    questions.next({A: a}, True)
    answered(questions)
    by_name = questions.next({A: a}, False)
    assert (by_name.session_id, by_name.session_epoch, list(by_name.rows)) == (7, 0, [A])


class Waiting:
    def __init__(self) -> None:
        self.looked_at: list[TopicPartition] = []
        self.touched: list[TopicPartition] | None = None

    def is_ready_after(self, key: TopicPartition) -> bool:
        self.looked_at.append(key)
        return key == B

    def finish(self, touched: object) -> None:
        self.touched = list(touched)  # type: ignore[call-overload]


def test_waiting_fetch_completes_once_if_many_partitions_advance() -> None:
    purgatory = Purgatory(SimRuntime(Scheduler(), derive_random(1, "x")))
    waiting = Waiting()
    purgatory.park(waiting, [A, B], 1_000)
    with purgatory:
        purgatory.wake(B)
        purgatory.wake(A)
        assert waiting.touched is None
    assert waiting.touched == [B, A]
    assert len(purgatory) == 0


def test_waiting_request_checks_only_partitions_that_changed() -> None:
    purgatory = Purgatory(SimRuntime(Scheduler(), derive_random(1, "x")))
    waiting = Waiting()
    purgatory.park(waiting, [A, B], 1_000)
    purgatory.wake(A)
    assert (waiting.looked_at, waiting.touched) == ([A], None)
    purgatory.close()
    assert waiting.touched == [A]
