"""Random requests of every supported schema, sent to a running broker: none causes an internal error."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.request_context import RequestRefused
from zabka.kafka.client.consumer_protocol import encode_subscription
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, request_class, version_of

ROUNDS = 25
TEXTS = ("orders", "", "a b", "__consumer_offsets", "1", "<default>", "retention.ms", "x" * 300, "min.insync.replicas")
NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 3, 77, 1_000, 2**31 - 1)
SMALL = (-128, -1, 0, 1, 2, 4, 127)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(2, offsets_topic_replication_factor="2", offsets_topic_num_partitions="4").start()
    made.run(made.client.create_topic("orders", 2, 2))
    yield made
    made.stop_all()


def a_value(random: Random, hint: Any, kafka_type: str | None, topic_ids: list[Any]) -> Any:
    choices = typing.get_args(hint)
    if type(None) in choices and random.random() < 0.2:
        return None
    for candidate in (hint, *choices):
        if typing.get_origin(candidate) is tuple:
            inner = typing.get_args(candidate)[0]
            count = random.choice((0, 1, 1, 2, 3))
            return tuple(a_value(random, inner, kafka_type, topic_ids) for _ in range(count))
        if isinstance(candidate, type) and is_dataclass(candidate):
            return a_message(random, candidate, topic_ids)
    return a_scalar(random, kafka_type, topic_ids)


def a_scalar(random: Random, kafka_type: str | None, topic_ids: list[Any]) -> Any:
    if kafka_type == "bool":
        return random.random() < 0.5
    if kafka_type == "string":
        return random.choice(TEXTS)
    if kafka_type == "uuid":
        return random.choice([UUID(int=1), *topic_ids])
    if kafka_type == "records":
        batch = build_batch([Record(b"k", b"v", 5)])
        return random.choice((b"", b"junk", batch, batch[:40], batch + batch, batch + b"\x00" * 10, bytes(200)))
    if kafka_type == "bytes":
        return random.choice((b"", b"\x00", encode_subscription(["orders"]), bytes(100)))
    if kafka_type in ("int8", "uint8"):
        return random.choice(SMALL)
    if kafka_type == "int16":
        return random.choice((-32768, -1, 0, 1, 2, 32767))
    if kafka_type == "error_code":
        return ErrorCode.none
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        from datetime import timedelta

        return timedelta(milliseconds=random.choice((-5, 0, 1, 20, 8_000)))
    return random.choice(NUMBERS)


def a_message(random: Random, schema: Any, topic_ids: list[Any]) -> Any:
    hints = typing.get_type_hints(schema)
    return schema(
        **{
            field.name: a_value(random, hints[field.name], field.metadata.get("kafka_type"), topic_ids)
            for field in fields(schema)
        }
    )


# Send control requests last, because they change the broker's state even if a client sends them, as in Kafka.
ORDER = sorted(SUPPORTED, key=lambda key: (key in (4, 5, 6, 7), key))


@pytest.mark.parametrize("key", ORDER, ids=lambda key: key.name)
def test_random_request_returns_a_response_or_is_rejected(cluster: Cluster, key: ApiKey) -> None:
    node = cluster.controller
    topic_ids = [node.broker.metadata.topic_id("orders"), None]
    random = Random(int(key))
    answers: list[Any] = []

    async def handle(message: Any) -> None:
        try:
            answers.append(await node.broker.handle(message, "fuzz", "PLAINTEXT"))
        except RequestRefused:
            answers.append(None)

    lowest, highest = SUPPORTED[key]
    for version in range(lowest, highest + 1):
        for _ in range(ROUNDS):
            message = a_message(random, request_class(key, version), topic_ids)
            answers.clear()
            cluster.on(node, handle(message))
            (answer,) = answers
            assert answer is None or (api_key_of(answer), version_of(answer)) == (key, version), message
    cluster.wait(3_000)
