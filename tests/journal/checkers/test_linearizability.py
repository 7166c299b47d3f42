"""The linearizability checker: known correct and incorrect histories, and a comparison with brute force."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zabka.journal.checkers.linearizability import Operation, check, check_one
from zabka.journal.checkers.znode_register import UNKNOWN, Answered, Asked, step

OK = Answered("ok")


def op(
    called: int, returned: int | None, asked: Asked, answered: Answered | None, client: str = "a", key: str = "/x"
) -> Operation:
    return Operation(client, key, called, returned, asked, answered)


def create(called: int, returned: int | None, data: bytes, answered: Answered | None = OK) -> Operation:
    return op(called, returned, Asked("create", data), answered)


def set_to(called: int, returned: int | None, data: bytes, version: int | None) -> Operation:
    return op(called, returned, Asked("set", data), UNKNOWN if version is None else Answered("ok", b"", version))


def read(called: int, returned: int, data: bytes, version: int) -> Operation:
    return op(called, returned, Asked("read"), Answered("ok", data, version))


def is_linearizable(*operations: Operation) -> bool | None:
    return check_one("/x", operations, step, None, 1_000_000).linearizable


def test_sequential_operations_are_linearizable() -> None:
    assert is_linearizable(create(0, 1, b"1"), set_to(2, 3, b"2", 1), read(4, 5, b"2", 1))


def test_read_after_a_completed_write_must_see_it() -> None:
    assert is_linearizable(create(0, 1, b"1"), set_to(2, 3, b"2", 1), read(4, 5, b"1", 0)) is False


def test_read_concurrent_with_a_write_can_see_either_value() -> None:
    for data, version in ((b"1", 0), (b"2", 1)):
        assert is_linearizable(create(0, 1, b"1"), set_to(2, 9, b"2", 1), read(3, 4, data, version))


def test_two_reads_during_a_write_cannot_go_backwards() -> None:
    new_then_old = (create(0, 1, b"1"), set_to(2, 9, b"2", 1), read(3, 4, b"2", 1), read(5, 6, b"1", 0))
    assert is_linearizable(*new_then_old) is False


def test_write_of_unknown_outcome_can_take_effect_late() -> None:
    lost_then_seen = (create(0, 1, b"1"), set_to(2, None, b"2", None), read(5, 6, b"1", 0), read(7, 8, b"2", 1))
    assert is_linearizable(*lost_then_seen)


def test_write_of_unknown_outcome_need_not_take_effect() -> None:
    assert is_linearizable(create(0, 1, b"1"), set_to(2, None, b"2", None), read(5, 6, b"1", 0))


def test_write_of_unknown_outcome_takes_effect_at_most_once() -> None:
    twice = (create(0, 1, b"1"), set_to(2, None, b"2", None), read(5, 6, b"2", 2))
    assert is_linearizable(*twice) is False


def test_version_returned_twice_is_detected() -> None:
    assert is_linearizable(create(0, 1, b"1"), set_to(2, 8, b"2", 1), set_to(3, 9, b"3", 1)) is False


def test_lost_write_is_reported_with_the_operation_that_failed() -> None:
    lost = [create(0, 1, b"1"), set_to(2, 3, b"2", 1), set_to(4, 5, b"3", 1)]
    verdict = check_one("/x", lost, step, None, 1_000)
    assert verdict.linearizable is False
    assert verdict.placed == (lost[0], lost[1])
    assert verdict.stuck == (lost[2],)


def test_objects_of_a_history_are_checked_separately() -> None:
    right = op(0, 1, Asked("create", b""), OK, key="/right")
    wrong = op(0, 1, Asked("read"), Answered("ok", b"", 0), key="/wrong")
    assert [(v.key, v.linearizable) for v in check([right, wrong], step, None)] == [("/right", True), ("/wrong", False)]


def test_search_over_its_step_limit_has_no_verdict() -> None:
    many = [create(0, 1, b"")] + [set_to(2, 100, b"%d" % i, i + 1) for i in reversed(range(30))]
    assert check_one("/x", many, step, None, 3).linearizable is None


def test_linearizability_check_is_linear_for_sequential_history() -> None:
    many = [create(0, 1, b"")] + [set_to(2 * i, 2 * i + 1, b"%d" % i, i) for i in range(1, 3000)]
    verdict = check_one("/x", many, step, None, 10_000)
    assert verdict.linearizable and verdict.steps == 3000


asked = st.one_of(
    st.builds(Asked, st.just("create"), st.sampled_from([b"1", b"2"])),
    st.builds(Asked, st.just("set"), st.sampled_from([b"1", b"2"]), st.sampled_from([-1, 0, 1])),
    st.builds(Asked, st.just("delete"), st.just(b""), st.sampled_from([-1, 0])),
    st.just(Asked("read")),
)
answered = st.one_of(
    st.builds(Answered, st.just("ok"), st.sampled_from([b"", b"1", b"2"]), st.sampled_from([0, 1, 2])),
    st.sampled_from([OK, Answered("no_node"), Answered("node_exists"), Answered("bad_version")]),
)


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    called = draw(st.integers(0, 8))
    if draw(st.integers(0, 4)) == 0:
        return op(called, None, draw(asked), UNKNOWN)
    return op(called, called + draw(st.integers(0, 5)), draw(asked), draw(answered))


def by_brute_force(history: list[Operation]) -> bool:
    """Return whether the history is linearizable, by trying all orders.

    Operations whose outcome is unknown may have taken effect or not, so all subsets of them are tried.
    """
    known = [o for o in history if o.returned_us is not None]
    unknown = [o for o in history if o.returned_us is None]
    for chosen in range(1 << len(unknown)):
        taken = known + [o for i, o in enumerate(unknown) if chosen >> i & 1]
        for order in permutations(taken):
            if _in_real_time(order) and _answers_right(order):
                return True
    return False


def _in_real_time(order: tuple[Operation, ...]) -> bool:
    ends = [float("inf") if o.returned_us is None else o.returned_us for o in order]
    return not any(ends[j] < order[i].called_us for i in range(len(order)) for j in range(i + 1, len(order)))


def _answers_right(order: tuple[Operation, ...]) -> bool:
    state = None
    for operation in order:
        possible, state = step(state, operation)
        if not possible:
            return False
    return True


@settings(deadline=None)
@given(st.lists(operations(), max_size=5))
def test_checker_agrees_with_brute_force(history: list[Operation]) -> None:
    assert check_one("/x", history, step, None, 1_000_000).linearizable is by_brute_force(history)


def test_reply_before_its_call_in_a_history_is_an_error() -> None:
    with pytest.raises(AssertionError, match="answered before it was asked"):
        is_linearizable(create(5, 4, b""))
