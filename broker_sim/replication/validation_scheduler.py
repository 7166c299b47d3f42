"""Runs long validations in slices between the broker's other work.

One slice runs at a time, followed by a pause in which the requests that arrived during the slice are processed
completely. Without the pause, a request would wait for a slice in each of the event loop iterations that it takes.
Several small batches share a slice: a producer that writes to a thousand partitions sends a thousand of them, and they
must not wait for long validations. Only a few long validations run at the same time, because each may have an unpacked
batch in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from zabka.broker_sim.slices import PAUSE_MS
from zabka.ensemble.ports import Runtime
from zabka.kafka.compression import Data
from zabka.kafka.record_batch import MAGIC, read_header
from zabka.kafka.record_refusals import RecordsRefused, unexpected
from zabka.kafka.record_validation import SLICE_RECORDS, Validated, Validation

BEGUN_MAX = 4
"""Maximum number of long validations in progress.

Further validations wait until a validation in progress is done.
"""
SLICES_AT_ONCE = 8
"""Maximum number of slices (together about 2 ms) that validate a request's partitions before other tasks run."""
COST_MIN = 50
"""The fixed cost of validating a batch, in the equivalent number of records."""

Done = Callable[[Validated | RecordsRefused], None]


def cost_of(data: Data) -> int:
    """Return the expected cost, in records, of a validation's work up to its first pause or its end.

    A whole slice costs SLICE_RECORDS.
    """
    header = read_header(data)
    if header is None or header.magic != MAGIC or header.size != len(data) or header.record_count < 0:
        return SLICE_RECORDS
    return max(COST_MIN, min(header.record_count, SLICE_RECORDS))


class AtOnce:
    """The total cost of the validations that a request may run before other tasks run."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = SLICES_AT_ONCE * SLICE_RECORDS

    def allows(self, cost: int) -> bool:
        """Return whether the budget allows this cost. If so, subtract it."""
        if cost > self._left:
            return False
        self._left -= cost
        return True


class _Job(NamedTuple):
    work: Validation
    done: Done
    cost: int


class ValidationScheduler:
    """Schedules the validations of record batches that a broker could not complete immediately."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._short: deque[_Job] = deque()
        self._begun: deque[_Job] = deque()
        self._waiting: deque[_Job] = deque()
        self._is_due = False
        self._had_short = False

    def __len__(self) -> int:
        return len(self._short) + len(self._begun) + len(self._waiting)

    def add(self, work: Validation, done: Done, cost: int = SLICE_RECORDS) -> None:
        """Run a validation and pass its result to `done`.

        `cost` is the expected cost of a validation that has not begun (`cost_of`).
        """
        (self._short if cost < SLICE_RECORDS else self._waiting).append(_Job(work, done, cost))
        self._go_on()

    def close(self) -> None:
        """Abort the unfinished validations with an error."""
        given_up = [*self._short, *self._begun, *self._waiting]
        for each in (self._short, self._begun, self._waiting):
            each.clear()
        for job in given_up:
            job.work.close()
            job.done(unexpected("the broker stops"))

    def _go_on(self) -> None:
        if not self._is_due and len(self):
            self._is_due = True
            self._runtime.call_later(PAUSE_MS, self._turn)

    def _turn(self) -> None:
        self._is_due = False
        while self._waiting and len(self._begun) < BEGUN_MAX:
            self._begun.append(self._waiting.popleft())
        # Allow up to BEGUN_MAX further validations, because batches that look short may turn out to be long once they
        # are decompressed.
        may_begin = bool(self._short) and len(self._begun) < 2 * BEGUN_MAX
        self._had_short = may_begin and not (self._had_short and self._begun)
        if self._had_short:
            self._look_over_short()
        elif self._begun:
            job = self._begun.popleft()
            if not self._has_ended(job):
                self._begun.append(job)
        self._go_on()

    def _look_over_short(self) -> None:
        left = SLICE_RECORDS
        while self._short and self._short[0].cost <= left:
            job = self._short.popleft()
            left -= job.cost
            if not self._has_ended(job):
                self._begun.append(job)
                return

    def _has_ended(self, job: _Job) -> bool:
        """Run one slice of a validation. Return whether the validation is complete."""
        outcome: Validated | RecordsRefused
        try:
            next(job.work)
        except StopIteration as ended:
            outcome = ended.value
        except RecordsRefused as refused:
            outcome = refused
        else:
            return False
        job.done(outcome)
        return True
