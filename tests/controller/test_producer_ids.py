"""AllocateProducerIds: blocks of a thousand producer ids, allocated by the controller (KIP-730)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller.controller_world import World
from zabka.journal.events import ControllerEventFailed
from zabka.kafka.zk import znodes


@pytest.fixture
def world() -> World:
    made = World()
    made.start(1)
    made.join(2)
    made.settle()
    return made


def allocate(world: World, broker_id: int, broker_epoch: int | None = None) -> Any:
    """Send AllocateProducerIds as a broker. By default, the broker epoch is valid."""
    context = world.active().controller.term.context
    epoch = context.broker_epoch(broker_id) if broker_epoch is None else broker_epoch
    asked = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
    return world.call(world.active().controller.allocate_producer_ids(asked))


def test_producer_id_blocks_are_consecutive_and_have_a_broker_id(world: World) -> None:
    for first in (0, 1000, 2000):
        answer = allocate(world, 2)
        assert (answer.error_code, answer.producer_id_start, answer.producer_id_len) == (KafkaError.none, first, 1000)
    block = json.loads(world.ensemble.data(znodes.LATEST_PRODUCER_ID_BLOCK))
    assert block == {"version": 1, "broker": 2, "block_start": "2000", "block_end": "2999"}


def test_producer_ids_are_allocated_only_with_the_current_epoch(world: World) -> None:
    epoch = world.active().controller.term.context.broker_epoch(2)
    assert allocate(world, 2, epoch - 1).error_code == KafkaError.stale_broker_epoch
    assert allocate(world, 2, epoch + 1).error_code == KafkaError.stale_broker_epoch
    assert allocate(world, 7, epoch).error_code == KafkaError.broker_id_not_registered
    assert not world.ensemble.data(znodes.LATEST_PRODUCER_ID_BLOCK)


def test_inactive_controller_rejects_allocate_producer_ids(world: World) -> None:
    world.start(3)
    world.settle()
    asked = AllocateProducerIdsRequest(broker_id=2, broker_epoch=1)
    assert world.call(world.nodes[3].controller.allocate_producer_ids(asked)).error_code == KafkaError.not_controller


def test_unreadable_producer_id_block_prevents_allocation(world: World) -> None:
    world.ensemble.put(znodes.LATEST_PRODUCER_ID_BLOCK, b"junk")
    assert allocate(world, 2).error_code == KafkaError.unknown_server_error
    assert [event.event for event in world.events(ControllerEventFailed)] == ["AllocateProducerIds"]


def test_missing_producer_id_znode_prevents_allocation(world: World) -> None:
    world.ensemble.delete(znodes.LATEST_PRODUCER_ID_BLOCK)
    assert allocate(world, 2).error_code == KafkaError.unknown_server_error
    assert world.nodes[1].controller.is_active
