"""Planted bugs of the controller, each for an outage of the library that has no old behaviour of Kafka's to show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from controller import broker_changes
from controller.context import PartitionState
from controller.controller import KafkaController
from controller.partition_state_machine import PartitionStateMachine
from controller.reign import Reign
from tests.simulation.planting import broken


@contextmanager
def a_new_controller_takes_leaders_for_alive() -> Iterator[None]:
    """What a new controller finds led it takes to be led, whoever has died meanwhile."""

    async def as_written(self: PartitionStateMachine) -> None:
        for partition in self._context.partitions:
            led = partition in self._context.leadership
            self._context.partition_states[partition] = PartitionState.ONLINE if led else PartitionState.NEW
        await self.trigger_online()

    with broken(PartitionStateMachine, startup=as_written):
        yield


@contextmanager
def deaths_are_noted_alone() -> Iterator[None]:
    """The controller hears that a broker has died, and elects nobody in its place."""

    async def note(reign: Reign, broker_ids: Sequence[int]) -> None:
        reign.context.forget_lives(broker_ids)

    with broken(broker_changes, _on_failure=note):
        yield


@contextmanager
def who_lost_its_session_stands_no_more() -> Iterator[None]:
    """A broker whose session ended registers anew, and never races for /controller again."""

    async def register(self: KafkaController) -> None:
        await self._register()

    with broken(KafkaController, _process_register_and_reelect=register):
        yield


PLANTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a new controller takes leaders for alive": a_new_controller_takes_leaders_for_alive,
    "deaths are noted alone": deaths_are_noted_alone,
    "who lost its session stands no more": who_lost_its_session_stands_no_more,
}
"""Each is shown by its script (`tests.simulation.scenarios.pairs`)."""
