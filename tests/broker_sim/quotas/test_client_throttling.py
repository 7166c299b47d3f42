"""Client quotas (KIP-13, KIP-219): which quota applies to a client, its throttle time, and its responses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim import broker_world
from tests.broker_sim.replication.replication_cluster import batch
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.principals import KafkaPrincipal
from zabka.broker_sim.quotas.client_meters import METERS_MAX
from zabka.broker_sim.quotas.client_throttling import (
    CONSUMER_RATE,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    ClientQuota,
    ClientThrottles,
)
from zabka.broker_sim.request_context import RequestContext
from zabka.journal import events as e
from zabka.kafka.wire.data_messages import FetchResponse, ProduceResponse
from zabka.kafka.wire.kafka_schema import ApiKey, as_time, milliseconds, request
from zabka.kafka.zk import znodes
from zabka.simulation.engine.scheduler import Scheduler

KILOBYTE = 1_000
LEVELS = [
    "users/ANONYMOUS/clients/app",
    "users/ANONYMOUS/clients/<default>",
    "users/ANONYMOUS",
    "users/<default>/clients/app",
    "users/<default>/clients/<default>",
    "users/<default>",
    "clients/app",
    "clients/<default>",
]
"""Quota entities from the most to the least specific, in the order in which Kafka looks them up."""


class Watch:
    """Virtual clock that the test advances."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.runtime = SimRuntime(self.scheduler, Random(0))

    def wait(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)


@pytest.mark.parametrize(("finer", "coarser"), list(pairwise(LEVELS)))
def test_most_specific_quota_of_a_client_applies(finer: str, coarser: str) -> None:
    throttles = ClientThrottles(Watch().runtime, 11, 1)
    for entity, limit in ((coarser, 7), (finer, 3)):
        throttles.take_over(entity, {PRODUCER_RATE: str(limit)})
    assert throttles.produce.most_at_once("app") == 3 * 10
    throttles.take_over(finer, {})
    assert throttles.produce.most_at_once("app") == 7 * 10
    assert not throttles.fetch.is_used


@pytest.mark.parametrize("entity", LEVELS)
def test_quotas_of_other_users_and_clients_do_not_apply(entity: str) -> None:
    throttles = ClientThrottles(Watch().runtime, 11, 1)
    throttles.take_over(entity, {CONSUMER_RATE: "3"})
    assert throttles.fetch.most_at_once("app") == 30
    throttles.take_over(entity.replace("ANONYMOUS", "somebody").replace("app", "other"), {CONSUMER_RATE: "5"})
    throttles.take_over(entity, {})
    assert throttles.fetch.most_at_once("app") is None


def test_client_names_are_decoded_from_znode_names() -> None:
    throttles = ClientThrottles(Watch().runtime, 11, 1)
    throttles.take_over("clients/a%2Fb", {PRODUCER_RATE: "4"})
    throttles.take_over("clients/%3Cdefault%3E", {PRODUCER_RATE: "rubbish"})
    assert throttles.produce.most_at_once("a/b") == 40 and throttles.produce.most_at_once("x") is None


def test_client_is_throttled_until_its_rate_is_within_the_quota() -> None:
    watch = Watch()
    quota = ClientQuota(watch.runtime, 11, 1)
    assert quota.note("app", 1_000_000) == 0 and not quota.is_used
    quota.limit("", "app", 100 * KILOBYTE)
    # A client that was idle can send a burst: ten windows at the quota's rate.
    assert quota.note("app", 1_000 * KILOBYTE) == 0
    assert quota.note("app", 50 * KILOBYTE) == 500
    watch.wait(500)
    assert quota.note("app", 0) == 0
    assert quota.note("other", 10**9) == 0


def test_user_quota_is_shared_but_default_client_quota_is_not() -> None:
    quota = ClientQuota(Watch().runtime, 11, 1)
    quota.limit("ANONYMOUS", "", 1_000)
    assert [quota.note("a", 10_000), quota.note("b", 1_000)] == [0, 1_000]
    quota = ClientQuota(Watch().runtime, 11, 1)
    quota.limit("", "<default>", 1_000)
    assert [quota.note("a", 10_000), quota.note("b", 10_000), quota.note("a", 500)] == [0, 0, 500]


def test_zero_quota_blocks_requests_until_the_quota_is_removed() -> None:
    quota = ClientQuota(Watch().runtime, 11, 1)
    quota.limit("", "app", 0)
    assert quota.note("app", 1) == 2**31 - 1
    quota.limit("", "app", None)
    assert quota.note("app", 10**9) == 0


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1E-320", "4.9E-324"])
@pytest.mark.parametrize("key", [PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE, MUTATION_RATE])
def test_extreme_quota_values_do_not_prevent_a_response(key: str, text: str) -> None:
    throttles = ClientThrottles(Watch().runtime, 11, 1)
    throttles.take_over("clients/<default>", {key: text})
    throttles.mutations.of_request("app", 0, 1).record(3)
    owed_ms = max(
        throttles.produce.note("app", 5_000),
        throttles.fetch.note("app", 5_000),
        throttles.request.quota.note("app", 5_000),
        throttles.mutations.owed_ms("app"),
    )
    # Kafka rounds a throttle time of NaN to 0, and limits an infinite one (from a tiny quota) to the maximum.
    longest_ms = 1_000 if key == REQUEST_PERCENTAGE else 2**31 - 1
    assert owed_ms == (longest_ms if "E" in text else 0)


def test_inactive_clients_are_removed() -> None:
    watch = Watch()
    quota = ClientQuota(watch.runtime, 2, 1)
    quota.limit("", "<default>", 1)
    for number in range(METERS_MAX + 10):
        quota.note(f"{number}", 1)
    assert len(quota._meters) == METERS_MAX
    watch.wait(3_600_001)
    quota.note("new", 1)
    assert list(quota._meters) == [("", "new")]


# ---- quotas at a running broker ---------------------------------------------------------------------------------


class Cluster(broker_world.Cluster):
    """One broker with a topic `t`. Its clients have a client id."""

    def quota(self, path: str, **values: int) -> None:
        """Set quotas with AlterClientQuotas, as an administrator does."""
        parts = path.split("/")
        names = {"users": "user", "clients": "client-id"}
        entity = [
            {"entity_type": names[kind], "entity_name": None if name == "<default>" else name}
            for kind, name in zip(parts[::2], parts[1::2], strict=True)
        ]
        ops = [{"key": key, "value": float(value), "remove": value < 0} for key, value in values.items()]
        entries = [{"entity": entity, "ops": ops}]
        (row,) = self.ask(request(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False)).entries
        assert row.error_code == ErrorCode.none, row
        self.wait(200)

    def ask(self, message: Any, client_id: str = "app") -> Any:
        node = self.nodes[1]
        return self.on(node, node.broker.handle(message, client_id, "PLAINTEXT"))

    def produce(self, size: int, acks: int = 1, client_id: str = "app") -> Any:
        rows = [{"index": 0, "records": batch("x" * size)}]
        topics = [{"name": "t", "partition_data": rows}]
        return self.ask(request(ApiKey.PRODUCE, 9, acks=acks, timeout=1_000, topic_data=topics), client_id)

    def fetch(self, offset: int, *, session: tuple[int, int] = (0, -1), replica_id: int = -1) -> FetchResponse:
        rows = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
        message = request(
            ApiKey.FETCH, 12, replica_id=replica_id, max_wait=0, min_bytes=1, max_bytes=1 << 20,
            session_id=session[0], session_epoch=session[1], topics=[{"topic": "t", "partitions": rows}], rack_id="",
        )  # fmt: skip
        answer = self.ask(message)
        assert isinstance(answer, FetchResponse)
        return answer


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(1)
    made.start()
    made.run(made.client.create_topic("t", assignment={0: [1]}))
    yield made
    made.stop_all()


def throttled(response: ProduceResponse | FetchResponse) -> int:
    return milliseconds(response.throttle_time)


def test_records_of_a_throttled_producer_are_stored_with_a_delay(cluster: Cluster) -> None:
    cluster.quota("clients/app", producer_byte_rate=10 * KILOBYTE)
    assert throttled(cluster.produce(90 * KILOBYTE)) == 0
    assert throttled(cluster.produce(20 * KILOBYTE)) == pytest.approx(1_000, abs=60)
    assert throttled(cluster.produce(20 * KILOBYTE, client_id="other")) == 0
    assert cluster.nodes[1].broker.replicas.partitions[e.TopicPartition("t", 0)].log.end_offset == 3


def test_throttled_producer_without_acks_is_muted(cluster: Cluster) -> None:
    cluster.quota("users/<default>", producer_byte_rate=10 * KILOBYTE)
    broker = cluster.nodes[1].broker

    def muted_ms(size: int) -> int:
        rows = [{"index": 0, "records": batch("x" * size)}]
        topics = [{"name": "t", "partition_data": rows}]
        context = RequestContext("app", "PLAINTEXT")
        asked = broker.serve(request(ApiKey.PRODUCE, 9, acks=0, timeout=1_000, topic_data=topics), context)
        assert cluster.on(cluster.nodes[1], asked) is None
        return context.muted_ms

    assert muted_ms(90 * KILOBYTE) == 0
    assert muted_ms(20 * KILOBYTE) == pytest.approx(1_000, abs=60)


def test_quota_of_a_user_applies_to_its_principal_only(cluster: Cluster) -> None:
    cluster.quota("users/ann@b", producer_byte_rate=10 * KILOBYTE)
    broker = cluster.nodes[1].broker

    def muted_ms(user: str, size: int) -> int:
        rows = [{"index": 0, "records": batch("x" * size)}]
        topics = [{"name": "t", "partition_data": rows}]
        context = RequestContext("app", "SASL_SSL", principal=KafkaPrincipal("User", user))
        asked = broker.serve(request(ApiKey.PRODUCE, 9, acks=0, timeout=1_000, topic_data=topics), context)
        assert cluster.on(cluster.nodes[1], asked) is None
        return context.muted_ms

    for user in ("ann@b", "bob", "ANONYMOUS"):
        assert muted_ms(user, 90 * KILOBYTE) == 0
    assert muted_ms("bob", 20 * KILOBYTE) == muted_ms("ANONYMOUS", 20 * KILOBYTE) == 0
    assert muted_ms("ann@b", 20 * KILOBYTE) == pytest.approx(1_000, abs=60)


def test_throttled_consumer_gets_no_data_but_keeps_its_session(cluster: Cluster) -> None:
    for _ in range(12):
        cluster.produce(9 * KILOBYTE)
    cluster.quota("clients/app", consumer_byte_rate=1 * KILOBYTE)
    first = cluster.fetch(0, session=(0, 0))
    assert first.session_id and throttled(first) == 0
    assert len(first.responses[0].partitions[0].records) < 10 * KILOBYTE, "at most ten windows' worth"
    second = cluster.fetch(1, session=(first.session_id, 1))
    assert throttled(second) == pytest.approx(8_500, abs=500)
    assert (second.responses, second.error_code, second.session_id) == ((), ErrorCode.none, first.session_id)
    # The first response counts until the end of its window. So the client is throttled again, although it has waited as
    # long as the broker requested.
    cluster.wait(throttled(second))
    assert throttled(cluster.fetch(1, session=(first.session_id, 2)))
    cluster.wait(11_000 - throttled(second))
    later = cluster.fetch(1, session=(first.session_id, 3))
    assert throttled(later) == 0 and later.responses[0].partitions[0].records


def test_consumer_throttled_at_its_first_fetch_has_no_session_id(cluster: Cluster) -> None:
    cluster.produce(9 * KILOBYTE)
    cluster.quota("clients/app", consumer_byte_rate=1 * KILOBYTE)
    cluster.fetch(0)
    answer = cluster.fetch(0, session=(0, 0))
    assert throttled(answer) and answer.session_id == 0 and answer.responses == ()


def test_follower_fetches_do_not_count_for_client_quotas(cluster: Cluster) -> None:
    for _ in range(4):
        cluster.produce(9 * KILOBYTE)
    cluster.quota("users/<default>", consumer_byte_rate=1)
    answer = cluster.fetch(0, replica_id=2)
    assert throttled(answer) == 0
    assert cluster.nodes[1].broker.quotas.fetch._meters == {}


def test_quotas_load_at_start_and_credentials_are_not_journaled(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    cluster.quota("users/ANONYMOUS/clients/app", producer_byte_rate=10 * KILOBYTE)
    cluster.quota("clients/<default>", consumer_byte_rate=5)
    znode = cluster.ensemble.nodes["/config/users/ANONYMOUS/clients/app"]
    znode.data = znodes.encode_config({PRODUCER_RATE: "7", "SCRAM-SHA-256": "salt=secret"})
    node.kill()
    cluster.expire(node)
    node.events.clear()
    cluster.start(1)
    assert node.broker.quotas.produce.most_at_once("app") == 70
    assert node.broker.quotas.fetch.most_at_once("app") == 50
    assert "secret" not in str(node.events)
    assert {event.entity: event.config for event in node.of(e.ConfigChanged)} == {
        "users/ANONYMOUS/clients/app": {PRODUCER_RATE: "7"},
        "clients/<default>": {CONSUMER_RATE: "5"},
    }


def test_removed_quota_no_longer_applies(cluster: Cluster) -> None:
    cluster.quota("clients/app", producer_byte_rate=1)
    assert throttled(cluster.produce(1 * KILOBYTE))
    cluster.quota("clients/app", producer_byte_rate=-1)
    assert throttled(cluster.produce(1 * KILOBYTE)) == 0


def test_first_defined_of_several_invalid_quotas_is_reported(cluster: Cluster) -> None:
    """If several quotas are invalid, the error names the one that QuotaConfigs defines first.

    ConfigDef.parse checks its keys in order, and the consumer's key comes before the others.
    """
    cluster.quota("clients/app", producer_byte_rate=1)
    bad = {"request_percentage": "c", "controller_mutation_rate": "b", CONSUMER_RATE: "a"}
    cluster.ensemble.nodes["/config/clients/app"].data = znodes.encode_config(bad)
    ops = [{"key": PRODUCER_RATE, "value": 2.0, "remove": False}]
    entries = [{"entity": [{"entity_type": "client-id", "entity_name": "app"}], "ops": ops}]
    (row,) = cluster.ask(request(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False)).entries
    assert row.error_message == f"Invalid value a for configuration {CONSUMER_RATE}: Not a number of type LONG"


# ---- muting a connection at the Kafka port ----------------------------------------------------------------------


def test_throttled_request_gets_its_response_before_muting() -> None:
    from tests.broker_sim.test_port_connection import serving
    from zabka.kafka.channel import AsyncioChannel
    from zabka.kafka.ports import Endpoint

    async def play() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as (served, port):
            received: list[float] = []

            async def handle(message: Any, context: RequestContext) -> Any:
                received.append(loop.time())
                context.muted_ms = 200 if len(received) == 1 else 0
                return ProduceResponse(9, (), as_time(context.muted_ms))

            port.handle = handle
            channel = AsyncioChannel("test")
            to = Endpoint(1, "127.0.0.1", served.number)
            message = request(ApiKey.PRODUCE, 9, acks=1, timeout=1_000, topic_data=[])
            first = channel.call(to, message, 5_000)
            second = channel.call(to, message, 5_000)
            assert milliseconds((await first).throttle_time) == 200
            answered = loop.time()
            await second
            assert answered - received[0] < 0.15 and received[1] - received[0] >= 0.199
            channel.close()

    asyncio.run(asyncio.wait_for(play(), 20))
