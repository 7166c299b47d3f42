"""Linearizability checker for histories of concurrent operations, similar to Porcupine.

Each operation has a call and a return, unless its outcome is unknown. A history is linearizable if each operation can
be assigned a moment between its call and its return such that a sequential object would have given the same results
(Herlihy and Wing 1990). The search is Wing and Gong's, with Lowe's cache of earlier attempts ("Testing for
linearizability", 2017). It places the earliest possible operation next in the order, and continues. If no complete
order follows, it undoes the placement. It never tries the same set of placed operations in the same state twice.
Histories of independent objects are checked separately (P-compositionality), which keeps the sets small.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

STEPS_MAX = 5_000_000


class Operation(NamedTuple):
    """A client's operation on one object, and its result.

    `returned_us` is None if the client never received the result, because a connection broke or a process died. Such an
    operation may have taken effect at any time after its call, or never.
    """

    client: str
    key: str
    called_us: int
    returned_us: int | None
    asked: Hashable
    answered: Hashable


Step = Callable[[Any, Operation], tuple[bool, Hashable]]
"""Function (state, operation) that returns whether the operation can have its result, and the state after it."""


class Verdict(NamedTuple):
    """Result of checking the operations with one key.

    `linearizable` is None if the search stopped after `steps_max` placements. If it is False, `placed` is the longest
    valid order found, and `stuck` contains the operations that could not follow it.
    """

    linearizable: bool | None
    key: str
    steps: int
    placed: tuple[Operation, ...] = ()
    stuck: tuple[Operation, ...] = ()


class _Event:
    """The call or the return of an operation that the checker has not placed in the order yet.

    These events form a doubly linked list.
    """

    __slots__ = ("after", "before", "is_call", "number", "operation", "return_")

    def __init__(self, number: int, operation: Operation, is_call: bool) -> None:
        self.number = number
        self.operation = operation
        self.is_call = is_call
        self.before: _Event | None = None
        self.after: _Event | None = None
        self.return_: _Event | None = None


def check(operations: Iterable[Operation], step: Step, initial: Hashable, steps_max: int = STEPS_MAX) -> list[Verdict]:
    """Check the operations of each key, and return one verdict per key, in order of first appearance.

    The operations can be in any order.
    """
    by_key: dict[str, list[Operation]] = {}
    for operation in operations:
        by_key.setdefault(operation.key, []).append(operation)
    return [check_one(key, found, step, initial, steps_max) for key, found in by_key.items()]


def check_one(key: str, operations: Sequence[Operation], step: Step, initial: Hashable, steps_max: int) -> Verdict:
    """Check the operations on one object."""
    head = _linked(operations)
    unreturned = sum(operation.returned_us is not None for operation in operations)
    state, placed_set = initial, 0
    placed: list[tuple[_Event, Hashable]] = []
    tried: set[tuple[int, Hashable]] = set()
    longest: tuple[Operation, ...] = ()
    steps = 0
    event = head.after
    while unreturned:
        # This operation returned here and is not placed yet, so no operation that was called later can be placed before
        # it. Undo the last placement.
        if event is None or not event.is_call:
            if len(placed) >= len(longest):
                longest = tuple(call.operation for call, _ in placed)
                stuck = _open_calls(head)
            if not placed:
                return Verdict(False, key, steps, longest, stuck)
            call, state = placed.pop()
            placed_set &= ~(1 << call.number)
            unreturned += call.return_ is not None
            _put_back(call)
            event = call.after
            continue
        possible, next_state = step(state, event.operation)
        next_set = placed_set | 1 << event.number
        if not possible or (next_set, next_state) in tried:
            event = event.after
            continue
        steps += 1
        if steps > steps_max:
            return Verdict(None, key, steps)
        tried.add((next_set, next_state))
        placed.append((event, state))
        state, placed_set = next_state, next_set
        unreturned -= event.return_ is not None
        _take_out(event)
        event = head.after
    return Verdict(True, key, steps, tuple(call.operation for call, _ in placed))


def _linked(operations: Sequence[Operation]) -> _Event:
    """Link the calls and returns in order of time, and return the head of the list.

    A call precedes a return at the same microsecond, so the two operations count as concurrent. This rule can hide a
    violation, but it never causes a false one to be reported.
    """
    timed: list[tuple[int, bool, int, _Event]] = []
    for number, operation in enumerate(operations):
        call = _Event(number, operation, True)
        timed.append((operation.called_us, False, number, call))
        if operation.returned_us is not None:
            assert operation.returned_us >= operation.called_us, f"answered before it was asked: {operation}"
            call.return_ = _Event(number, operation, False)
            timed.append((operation.returned_us, True, number, call.return_))
    timed.sort(key=lambda entry: entry[:3])
    last = head = _Event(-1, Operation("", "", 0, None, None, None), True)
    for _, _, _, event in timed:
        last.after, event.before = event, last
        last = event
    return head


def _unlink(event: _Event) -> None:
    assert event.before is not None
    event.before.after = event.after
    if event.after is not None:
        event.after.before = event.before


def _relink(event: _Event) -> None:
    assert event.before is not None
    event.before.after = event
    if event.after is not None:
        event.after.before = event


def _take_out(call: _Event) -> None:
    _unlink(call)
    if call.return_ is not None:
        _unlink(call.return_)


def _put_back(call: _Event) -> None:
    """Insert a call and its return into the list again, in the reverse order of `_take_out`."""
    if call.return_ is not None:
        _relink(call.return_)
    _relink(call)


def _open_calls(head: _Event) -> tuple[Operation, ...]:
    """Return the operations that were called before the first remaining return."""
    found = []
    event = head.after
    while event is not None and event.is_call:
        found.append(event.operation)
        event = event.after
    return tuple(found)
