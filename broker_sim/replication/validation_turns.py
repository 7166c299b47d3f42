"""Validations that take long, done a slice at a time while the broker goes on with everything else.

One slice is done at a time, whoever's turn it is, and then nothing for a while, so that requests which came meanwhile
are carried out whole: a request takes several turns of the event loop, and would else wait for a slice in each.  Few
are begun at a time, since each may hold an unpacked batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from broker_sim.slices import PAUSE_MS
from ensemble.ports import Runtime
from kafka_protocol.record_refusals import RecordsRefused, unexpected
from kafka_protocol.record_validation import Validated, Validation

BEGUN_MAX = 4
"""Validations that take turns; the others wait until one of these is done."""

Done = Callable[[Validated | RecordsRefused], None]


class _Job(NamedTuple):
    work: Validation
    done: Done


class ValidationTurns:
    """All long validations of a broker."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._begun: deque[_Job] = deque()
        self._waiting: deque[_Job] = deque()

    def __len__(self) -> int:
        return len(self._begun) + len(self._waiting)

    def add(self, work: Validation, done: Done) -> None:
        """Carry it out, and then tell what came of it."""
        if not self._begun:
            self._runtime.call_later(PAUSE_MS, self._turn)
        (self._begun if len(self._begun) < BEGUN_MAX else self._waiting).append(_Job(work, done))

    def close(self) -> None:
        """Give up what is not done."""
        given_up = [*self._begun, *self._waiting]
        self._begun.clear()
        self._waiting.clear()
        for job in given_up:
            job.work.close()
            job.done(unexpected("the broker stops"))

    def _turn(self) -> None:
        if not self._begun:
            return
        job = self._begun[0]
        outcome: Validated | RecordsRefused
        try:
            next(job.work)
        except StopIteration as ended:
            outcome = ended.value
        except RecordsRefused as refused:
            outcome = refused
        else:
            self._begun.rotate(-1)
            self._runtime.call_later(PAUSE_MS, self._turn)
            return
        self._begun.popleft()
        if self._waiting:
            self._begun.append(self._waiting.popleft())
        if self._begun:
            self._runtime.call_later(PAUSE_MS, self._turn)
        job.done(outcome)
