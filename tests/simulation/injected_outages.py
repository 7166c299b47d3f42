"""Injected bugs of the controller and of brokers.

Each belongs to an outage that none of Kafka's historical behaviors causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from tests.simulation.injecting import broken
from zabka.broker_sim.replication.partition import Partition
from zabka.controller import broker_changes, partition_state_machine
from zabka.controller.context import PartitionState
from zabka.controller.controller import KafkaController
from zabka.controller.partition_state_machine import PartitionStateMachine
from zabka.controller.term import ControllerTerm
from zabka.kafka.zk.znodes import ReplicaAssignment, TopicAssignment


@contextmanager
def a_new_controller_takes_leaders_for_alive() -> Iterator[None]:
    """Injected bug: a new controller assumes that all current leaders are alive, even if they have died."""

    async def as_written(self: PartitionStateMachine) -> None:
        for partition in self._context.partitions:
            led = partition in self._context.leadership
            self._context.partition_states[partition] = PartitionState.ONLINE if led else PartitionState.NEW
        await self.trigger_online()

    with broken(PartitionStateMachine, startup=as_written):
        yield


@contextmanager
def deaths_are_noted_alone() -> Iterator[None]:
    """Injected bug: when a broker dies, the controller elects no new leaders."""

    async def note(term: ControllerTerm, broker_ids: Sequence[int]) -> None:
        term.context.forget_processes(broker_ids)

    with broken(broker_changes, _on_failure=note):
        yield


@contextmanager
def who_lost_its_session_stands_no_more() -> Iterator[None]:
    """Injected bug: a broker whose session expired registers again, but no longer takes part in controller
    elections.
    """

    async def register(self: KafkaController) -> None:
        await self._register()

    with broken(KafkaController, _process_register_and_reelect=register):
        yield


@contextmanager
def who_lags_stays_in_sync() -> Iterator[None]:
    """Injected bug: a leader removes no replica from its ISR, however far the replica lags."""
    with broken(Partition, maybe_shrink_isr=lambda self: None):
        yield


@contextmanager
def no_replica_is_preferred() -> Iterator[None]:
    """Injected bug: a preferred leader election does not change the leader."""
    with broken(partition_state_machine, leader_for_preferred=lambda state, assignment, live: None):
        yield


@contextmanager
def a_reassignment_ends_with_its_controller() -> Iterator[None]:
    """Injected bug: a new controller does not continue a reassignment.

    It reads a partition's replicas, but not its adding and removing replicas.
    """
    read = ControllerTerm.read_topics

    async def as_they_are(self: ControllerTerm, topics: Sequence[str]) -> dict[str, TopicAssignment]:
        return {
            topic: found._replace(
                partitions={n: ReplicaAssignment(row.replicas) for n, row in found.partitions.items()}
            )
            for topic, found in (await read(self, topics)).items()
        }

    with broken(ControllerTerm, read_topics=as_they_are):
        yield


INJECTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a new controller takes leaders for alive": a_new_controller_takes_leaders_for_alive,
    "deaths are noted alone": deaths_are_noted_alone,
    "who lost its session stands no more": who_lost_its_session_stands_no_more,
    "who lags stays in sync": who_lags_stays_in_sync,
    "nobody is preferred": no_replica_is_preferred,
    "a reassignment ends with its controller": a_reassignment_ends_with_its_controller,
}
"""Injected bugs, keyed by name; `tests.simulation.scenarios.pairs` has a script that exposes each bug."""
