"""State that a controller term passes to the next term of the same broker, if certain historical behaviours are
enabled.

Kafka's controller is one object for all its terms. This controller begins each term with new objects. The behaviours
context-kept and poisoned-batch restore the state that Kafka's object retains.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zabka.controller.context import ControllerContext, Replica, ReplicaState
from zabka.controller.historical import Historical
from zabka.controller.replica_state_machine import ReplicaStateMachine
from zabka.controller.request_batch import IllegalState, RequestBatch, Unsent


class Legacy:
    """State that survives the end of a controller term."""

    def __init__(self, historical: Collection[Historical]) -> None:
        self._keeps_context = Historical.CONTEXT_KEPT in historical
        self._keeps_batch = Historical.POISONED_BATCH in historical
        self._context: ControllerContext | None = None
        self._unsent: Unsent | None = None

    def leave(self, context: ControllerContext, replica_batch: RequestBatch) -> None:
        """Store the state of a controller term that has ended."""
        if self._keeps_context:
            self._context = context
        if self._keeps_batch:
            self._unsent = replica_batch.unsent()

    def recall(self, context: ControllerContext) -> None:
        """Add the earlier term's context to the context that the new term has read (KAFKA-5310)."""
        if self._context is not None:
            context.take_up(self._context)

    def fill(self, replica_batch: RequestBatch) -> None:
        """Add the unsent requests of the earlier term to the new term's batch (KAFKA-12315)."""
        if self._unsent is not None:
            replica_batch.begin_with(self._unsent)


class PoisonedReplicaStateMachine(ReplicaStateMachine):
    """Replica state machine with Historical.POISONED_BATCH.

    It has its own request batch. As in Kafka, which logs the exception and continues, a state change is dropped if the
    batch is in an illegal state.
    """

    async def handle(self, replicas: Sequence[Replica], target: ReplicaState) -> list[Replica]:
        """Move replicas to a state.

        If the move raises IllegalState, change nothing and return all these replicas.
        """
        try:
            return await super().handle(replicas, target)
        except IllegalState:
            return list(replicas)
