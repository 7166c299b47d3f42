"""Allocates blocks of producer ids from /latest_producer_id_block for brokers that request them (KIP-730).

Source: kafka.coordinator.transaction.ZkProducerIdManager, KafkaController.processAllocateProducerIds. A block has a
thousand ids. Brokers of Kafka 3.0 and newer request blocks from the controller. Older brokers and zabka's brokers write
to ZooKeeper themselves to get a block, with the same compare-and-set.
"""

from __future__ import annotations

from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.types import ProducerId
from kio.static.primitive import i32

from zabka.controller.leader_elections import NO_THROTTLE
from zabka.controller.term import ControllerTerm
from zabka.ensemble.errors import BadVersion, NoNode
from zabka.kafka.ports import UNKNOWN_BROKER_EPOCH, KafkaMessage
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk

BLOCK_SIZE = 1000
_ID_MAX = 2**63 - 1


class ProducerIdsUnavailable(Exception):
    """The free producer ids are unknown, because /latest_producer_id_block is missing, unreadable or exhausted.

    If an id were allocated twice, brokers could mistake one producer's records for another's duplicates.
    """


async def claim_block(zk: Zk, broker_id: int) -> tuple[int, int]:
    """Allocate the next block of producer ids; return its first id and the id after its last.

    Raises ZooKeeperError and ProducerIdsUnavailable.
    """
    service = zk.service
    while True:
        try:
            data, stat = await zk.call(lambda: service.get(znodes.LATEST_PRODUCER_ID_BLOCK))
        except NoNode:
            raise ProducerIdsUnavailable(f"{znodes.LATEST_PRODUCER_ID_BLOCK} is missing; write the last one") from None
        first = _first_free(data)
        block = znodes.encode_producer_id_block(broker_id, first, first + BLOCK_SIZE - 1)
        version = stat.version
        try:
            await zk.call(lambda: service.set(znodes.LATEST_PRODUCER_ID_BLOCK, block, version))  # noqa: B023
        except BadVersion:
            # Another broker, or an earlier transmission of this request, has allocated this block: try the next one.
            continue
        return first, first + BLOCK_SIZE


def _first_free(data: bytes | None) -> int:
    if not data:
        return 0
    latest = znodes.decode_producer_id_block(data)
    if latest is None:
        raise ProducerIdsUnavailable(f"{znodes.LATEST_PRODUCER_ID_BLOCK} is not readable; delete or repair it")
    first = latest[2] + 1
    if first > _ID_MAX - BLOCK_SIZE:
        raise ProducerIdsUnavailable(f"{znodes.LATEST_PRODUCER_ID_BLOCK} says that every producer id is used up")
    return first


def producer_ids_response(error: KafkaError, first: int = 0, count: int = 0) -> KafkaMessage:
    """Return the response to AllocateProducerIds."""
    return AllocateProducerIdsResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id_start=ProducerId(first),
        producer_id_len=i32(count),
    )


async def process_allocate_producer_ids(term: ControllerTerm, request: KafkaMessage) -> KafkaMessage:
    """Process AllocateProducerIds: allocate a block if the requesting broker is registered with the same broker
    epoch.
    """
    epoch = term.context.broker_epoch(request.broker_id)
    if epoch is None:
        return producer_ids_response(KafkaError.broker_id_not_registered)
    if epoch not in (request.broker_epoch, UNKNOWN_BROKER_EPOCH):
        return producer_ids_response(KafkaError.stale_broker_epoch)
    try:
        first, end = await claim_block(term.zk, request.broker_id)
    except ProducerIdsUnavailable as unavailable:
        term.report("AllocateProducerIds", str(unavailable))
        return producer_ids_response(KafkaError.unknown_server_error)
    return producer_ids_response(KafkaError.none, first, end - first)
