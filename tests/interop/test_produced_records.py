"""Apache Kafka 3.9.1 and our broker handle valid and invalid produce requests in the same way.

Both brokers receive the same bytes for every case. The test compares the errors, with their messages and record
indexes, and the stored records that older and newer clients read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from bench.free_ports import free_ports
from tests.interop.interop_brokers import BrokerServer
from tests.interop.interop_servers import running
from tests.interop.produced_answers import Wire, answer_to, await_topics
from tests.interop.produced_cases import CASES, Case, message_set, some
from tests.interop.real_kafka import KafkaServer
from zabka.kafka.record_batch import build_batch
from zabka.kafka.wire.kafka_schema import ApiKey

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

SETTINGS: dict[str, object] = {"default_replication_factor": 1, "offsets_topic_replication_factor": 1}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Wire]]:
    """Yield connections to our broker and to Apache Kafka. Each has its own ensemble, and the same topics."""
    with ExitStack() as stack:
        wires = []
        for name in ("ours", "kafka"):
            directory = tmp_path_factory.mktemp(name)
            (directory / "peers").mkdir()
            hosts = stack.enter_context(running("ours", 1, directory / "peers")).hosts
            broker: BrokerServer | KafkaServer
            if name == "ours":
                broker = BrokerServer(1, free_ports(1)[0], directory / "broker", hosts, **SETTINGS)
            else:
                broker = KafkaServer(1, directory / "broker", hosts, **SETTINGS)
            stack.callback(broker.kill)
            broker.start()
            wires.append(await_topics(broker.port))
            stack.callback(wires[-1].close)
        yield wires[0], wires[1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_kafka_and_zabka_reply_and_store_records_equally(both: tuple[Wire, Wire], case: Case) -> None:
    ours, kafkas = (answer_to(wire, case) for wire in both)
    assert ours == kafkas


def test_kafka_and_zabka_serve_equal_produce_and_fetch_versions(both: tuple[Wire, Wire]) -> None:
    ranges = []
    for wire in both:
        served = {row.api_key: (row.min_version, row.max_version) for row in wire.ask(ApiKey.API_VERSIONS, 0).api_keys}
        ranges.append({key: served[key] for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS)})
    assert ranges[0] == ranges[1]


@pytest.mark.parametrize("timestamp", [-1, -2, -3, 0, 1 << 62])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_kafka_and_zabka_give_equal_list_offsets_v0_responses(
    both: tuple[Wire, Wire], timestamp: int, count: int
) -> None:
    answers = []
    for wire in both:
        assert wire.produce("listed", message_set(1), 2).error_code == 0
        rows = [{"partition_index": 0, "timestamp": timestamp, "max_num_offsets": count}]
        values: dict[str, Any] = {"replica_id": -1, "topics": [{"name": "listed", "partitions": rows}]}
        row = wire.ask(ApiKey.LIST_OFFSETS, 0, **values).topics[0].partitions[0]
        answers.append((row.error_code, row.old_style_offsets))
    assert answers[0] == answers[1]


def test_kafka_and_zabka_reject_disabled_down_conversion(both: tuple[Wire, Wire]) -> None:
    errors = []
    for wire in both:
        assert wire.produce("unconverted", build_batch(some()), 9).error_code == 0
        errors.append([int(wire.fetch("unconverted", 0, version).error_code) for version in (0, 3, 4, 9, 10)])
    assert errors[0] == errors[1]
