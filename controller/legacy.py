"""State that one term passes on to the next term of the same broker: none, unless an old behaviour is enabled.

Kafka's controller is one object for all its terms. This controller begins each term with new objects. The behaviours
context-kept and poisoned-batch restore what Kafka's object kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zabka.controller.context import ControllerContext, Replica, ReplicaState
from zabka.controller.historical import Historical
from zabka.controller.replica_state_machine import ReplicaStateMachine
from zabka.controller.request_batch import IllegalState, RequestBatch, Unsent


class Legacy:
    """State that a controller keeps from term to term."""

    def __init__(self, historical: Collection[Historical]) -> None:
        self._keeps_context = Historical.CONTEXT_KEPT in historical
        self._keeps_batch = Historical.POISONED_BATCH in historical
        self._context: ControllerContext | None = None
        self._unsent: Unsent | None = None

    def leave(self, context: ControllerContext, replica_batch: RequestBatch) -> None:
        """Store the state of a term that has ended."""
        if self._keeps_context:
            self._context = context
        if self._keeps_batch:
            self._unsent = replica_batch.unsent()

    def recall(self, context: ControllerContext) -> None:
        """Add the earlier term's context to the context that a new term has read (KAFKA-5310)."""
        if self._context is not None:
            context.take_up(self._context)

    def fill(self, replica_batch: RequestBatch) -> None:
        """Begin the new term's batch with the unsent requests of the earlier one (KAFKA-12315)."""
        if self._unsent is not None:
            replica_batch.begin_with(self._unsent)


class PoisonedReplicaStateMachine(ReplicaStateMachine):
    """Replica state machine with Historical.POISONED_BATCH.

    This state machine has its own batch. As in Kafka, which logs the exception and continues, a change is dropped if
    the batch is in an illegal state.
    """

    async def handle(self, replicas: Sequence[Replica], target: ReplicaState) -> list[Replica]:
        """Move replicas to a state, or drop the change."""
        try:
            return await super().handle(replicas, target)
        except IllegalState:
            return list(replicas)
