"""Validations that take long, done a slice at a time while the broker goes on with everything else.

One slice is done at a time, whoever's turn it is, and then nothing for a while, so that requests which came meanwhile
are carried out whole: a request takes several turns of the event loop, and would else wait for a slice in each.  Of
small batches several are a slice: who writes to a thousand partitions has a thousand of them, and they do not queue
behind long ones.  Few are begun at a time, since each may hold an unpacked batch.
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
"""Long validations that take turns; the others wait until one of these is done."""
SLICES_AT_ONCE = 8
"""So many slices of validation, two milliseconds or so, are done where a request begins, be it for one partition or
for a thousand."""
COST_MIN = 50
"""A batch of one record takes about as long to look over as so many more of its records would."""

Done = Callable[[Validated | RecordsRefused], None]


def cost_of(data: Data) -> int:
    """What to expect of a validation up to its end, or to its first pause, in records; a slice has SLICE_RECORDS."""
    header = read_header(data)
    if header is None or header.magic != MAGIC or header.size != len(data) or header.record_count < 0:
        return SLICE_RECORDS
    return max(COST_MIN, min(header.record_count, SLICE_RECORDS))


class AtOnce:
    """How much of a request may still be looked over where it begins."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = SLICES_AT_ONCE * SLICE_RECORDS

    def allows(self, cost: int) -> bool:
        """May so much be done?  It counts as done then."""
        if cost > self._left:
            return False
        self._left -= cost
        return True


class _Job(NamedTuple):
    work: Validation
    done: Done
    cost: int


class ValidationTurns:
    """All validations of a broker that are not done at once."""

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
        """Carry it out, and then tell what came of it.  `cost` is that of the data if nothing of it is done."""
        (self._short if cost < SLICE_RECORDS else self._waiting).append(_Job(work, done, cost))
        self._go_on()

    def close(self) -> None:
        """Give up what is not done."""
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
        # As many again may have turned out to be long, by what they unpack to.
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
        """Do a slice: was it the last one?"""
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
