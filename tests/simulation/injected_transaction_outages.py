"""Injected bugs of transactions. For each bug, the outage library has a script that exposes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tests.simulation.injecting import broken
from zabka.broker_sim.logs.producer_state import ProducerStates
from zabka.broker_sim.transactions import metadata
from zabka.broker_sim.transactions.coordinator import TransactionCoordinator
from zabka.broker_sim.transactions.metadata import TransactionMetadata, TransactionState


@contextmanager
def producers_are_not_fenced() -> Iterator[None]:
    """Injected bug: a leader appends records whatever their producer epoch is."""
    check = ProducerStates.check

    def trusting(self: ProducerStates, header: Any, *more: Any) -> Any:
        known = self._producers.get(header.producer_id)
        if known is not None and header.producer_epoch < known.epoch:
            return 0
        return check(self, header, *more)

    with broken(ProducerStates, check=trusting):
        yield


@contextmanager
def transactions_do_not_time_out() -> Iterator[None]:
    """Injected bug: a coordinator does not abort a transaction after its timeout."""
    with broken(TransactionMetadata, has_timed_out=lambda self, now_ms: False):
        yield


@contextmanager
def decisions_end_with_their_coordinator() -> Iterator[None]:
    """Injected bug: a new coordinator does not send the markers of transactions that were decided."""
    with broken(TransactionCoordinator, _loaded=lambda self, coordinated: None):
        yield


@contextmanager
def ids_with_a_transaction_expire() -> Iterator[None]:
    """Injected bug: a transactional id expires by the time of its last change, even during a transaction."""
    states = frozenset(TransactionState)
    previous = {**metadata.VALID_PREVIOUS, TransactionState.DEAD: states}
    with broken(metadata, EXPIRES=states, VALID_PREVIOUS=previous):
        yield


@contextmanager
def markers_reset_a_producers_time() -> Iterator[None]:
    """Injected bug: a marker resets its producer's timestamp (KAFKA-9144).

    So the producer expires at the next check.
    """
    end = ProducerStates.end_transaction

    def forgetful(self: ProducerStates, header: Any, marker: Any) -> Any:
        completed = end(self, header, marker)
        self._producers[header.producer_id].last_timestamp = -1
        return completed

    with broken(ProducerStates, end_transaction=forgetful):
        yield


INJECTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "producers are not fenced": producers_are_not_fenced,
    "transactions do not time out": transactions_do_not_time_out,
    "decisions end with their coordinator": decisions_end_with_their_coordinator,
    "ids with a transaction expire": ids_with_a_transaction_expire,
    "markers reset a producer's time": markers_reset_a_producers_time,
}
"""Injected bugs, keyed by name. For each bug, `tests.simulation.scenarios.pairs` has a script that shows it."""
