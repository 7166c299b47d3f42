"""Controller mutation quotas: limits on partitions created and deleted per second (KIP-599)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.quotas.test_client_throttling import Cluster, Watch
from tests.broker_sim.replication.replication_cluster import batch
from zabka.broker_sim.principals import KafkaPrincipal
from zabka.broker_sim.quotas.controller_mutations import MutationQuota
from zabka.broker_sim.refusals import Refused
from zabka.broker_sim.request_context import RequestContext
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds, request

EXCEEDED = ErrorCode.throttling_quota_exceeded


def quota(watch: Watch, per_second: float) -> MutationQuota:
    made = MutationQuota(watch.runtime, 11, 1)
    made.limit("", "app", per_second)
    return made


def test_mutation_burst_is_admitted_and_then_throttled() -> None:
    watch = Watch()
    held = quota(watch, 5)
    strict = held.of_request("app", 6, 6)
    # The token bucket holds the tokens of eleven seconds: 55. Until it is empty, a request can take more tokens than
    # are left.
    strict.record(55)
    strict.record(10)
    with pytest.raises(Refused) as refused:
        strict.record(1)
    assert (refused.value.error, str(refused.value)) == (EXCEEDED, "The throttling quota has been exceeded.")
    assert strict.throttle_ms == 2_000
    watch.wait(1_500)
    assert strict.throttle_ms == 500, "the elapsed time is subtracted"
    watch.wait(500)
    held.of_request("app", 6, 6).record(1)


def test_older_client_is_throttled_after_accepted_mutations() -> None:
    watch = Watch()
    permissive = quota(watch, 5).of_request("app", 5, 6)
    permissive.record(65)
    assert permissive.throttle_ms == 2_000
    permissive.record(5)
    assert permissive.throttle_ms == 3_000


def test_idle_token_bucket_fills_to_the_quota_of_all_windows() -> None:
    watch = Watch()
    held = quota(watch, 2)
    held.take_tokens("app", 1)
    watch.wait(3_600_000)
    held.take_tokens("app", 22 + 4)
    assert held.owed_ms("app") == 2_000


def test_lowered_quota_applies_at_once_and_a_zero_quota_blocks() -> None:
    watch = Watch()
    held = quota(watch, 100)
    held.take_tokens("app", 1)
    held.limit("", "app", 1)
    held.take_tokens("app", 12)
    assert held.owed_ms("app") == 1_000
    held.limit("", "app", 0)
    assert held.owed_ms("app") == 2**31 - 1
    held.limit("", "app", None)
    assert held.owed_ms("app") == 0 and held.owed_ms("other") == 0


# ---- mutation quotas at a running broker ------------------------------------------------------------------------


class Administrators(Cluster):
    """One broker, and clients that create and delete topics."""

    def serve_request(self, message: Any, user: str = "ANONYMOUS") -> tuple[Any, RequestContext]:
        context = RequestContext("app", "PLAINTEXT", principal=KafkaPrincipal("User", user))
        node = self.nodes[1]
        return self.on(node, node.broker.serve(message, context)), context

    def create(self, *names: str, partitions: int = 10, version: int = 7) -> tuple[list[ErrorCode], int, int]:
        rows = [{"name": name, "num_partitions": partitions, "replication_factor": 1} for name in names]
        answer, context = self.serve_request(request(ApiKey.CREATE_TOPICS, version, topics=rows, timeout=5_000))
        throttle = milliseconds(answer.throttle_time) if hasattr(answer, "throttle_time") else -1
        return [row.error_code for row in answer.topics], throttle, context.muted_ms


@pytest.fixture
def cluster() -> Iterator[Administrators]:
    made = Administrators(1)
    made.start()
    yield made
    made.stop_all()


def test_topics_over_the_quota_are_rejected_with_a_throttle_time(cluster: Administrators) -> None:
    cluster.quota("clients/app", controller_mutation_rate=1)
    errors, throttle_ms, muted_ms = cluster.create("a", "b", "c")
    assert errors == [ErrorCode.none, ErrorCode.none, EXCEEDED]
    assert throttle_ms == muted_ms and 8_500 < throttle_ms <= 9_000
    assert "c" not in cluster.nodes[1].broker.metadata
    cluster.wait(throttle_ms + 100)
    assert cluster.create("c")[0] == [ErrorCode.none]


@pytest.mark.parametrize(("version", "has_throttle_time"), [(5, True), (1, False)])
def test_older_client_over_quota_creates_topics_but_is_muted(
    cluster: Administrators, version: int, has_throttle_time: bool
) -> None:
    cluster.quota("users/<default>", controller_mutation_rate=1)
    errors, throttle_ms, muted_ms = cluster.create("a", "b", "c", version=version)
    assert errors == [ErrorCode.none] * 3
    assert 18_000 < muted_ms <= 19_000 and throttle_ms == (muted_ms if has_throttle_time else -1)


def test_mutations_count_for_the_quota_unless_validate_only(cluster: Administrators) -> None:
    cluster.create("a", partitions=3)
    cluster.quota("clients/app", controller_mutation_rate=1)
    grow = [{"name": "a", "count": 20, "assignments": None}]
    for _ in range(3):
        message = request(ApiKey.CREATE_PARTITIONS, 3, topics=grow, timeout=5_000, validate_only=True)
        assert cluster.serve_request(message)[0].results[0].error_code == ErrorCode.none
    message = request(ApiKey.CREATE_PARTITIONS, 3, topics=grow, timeout=5_000, validate_only=False)
    answer, context = cluster.serve_request(message)
    assert answer.results[0].error_code == ErrorCode.none and context.muted_ms == 0
    delete = request(ApiKey.DELETE_TOPICS, 5, topic_names=["a"], timeout=5_000)
    answer, context = cluster.serve_request(delete)
    assert answer.responses[0].error_code == EXCEEDED and 5_000 < context.muted_ms <= 6_000
    cluster.wait(6_100)
    assert cluster.serve_request(delete)[0].responses[0].error_code == ErrorCode.none
    assert cluster.create("b")[0] == [EXCEEDED], "twenty deleted partitions count"


def test_automatic_topic_creation_counts_for_the_clients_quota(cluster: Administrators) -> None:
    cluster.quota("clients/app", controller_mutation_rate=0.01)
    for name in ("x", "y"):
        topics = [{"name": name}]
        cluster.serve_request(request(ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=True))
    cluster.wait(500)
    assert {"x", "y"} <= set(cluster.nodes[1].broker.metadata.topics())
    assert cluster.create("z")[0] == [EXCEEDED]


def test_automatic_topic_creation_counts_for_the_clients_user(cluster: Administrators) -> None:
    cluster.quota("users/ann", controller_mutation_rate=0.01)
    cluster.serve_request(request(ApiKey.METADATA, 12, topics=[{"name": "x"}], allow_auto_topic_creation=True), "ann")
    cluster.wait(500)
    create = request(
        ApiKey.CREATE_TOPICS, 7, topics=[{"name": "y", "num_partitions": 1, "replication_factor": 1}], timeout=5_000
    )
    errors = [cluster.serve_request(create, user)[0].topics[0].error_code for user in ("ann", "ANONYMOUS")]
    assert errors == [EXCEEDED, ErrorCode.none]


# ---- request time quotas ----------------------------------------------------------------------------------------


class Spent:
    """Clock of a request whose processing took `ms`."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def spent_ns(self) -> int:
        return self.ms * 1_000_000


def timed(cluster: Cluster, message: Any, ms: int) -> tuple[Any, int]:
    context = RequestContext("app", "PLAINTEXT", clock=Spent(ms))
    node = cluster.nodes[1]
    return cluster.on(node, node.broker.serve(message, context)), context.muted_ms


def test_request_time_throttle_is_at_most_one_quota_window(
    cluster: Administrators,
) -> None:
    ask = request(ApiKey.LIST_GROUPS, 4)
    assert timed(cluster, ask, 10_000)[1] == 0, "without a quota, time is not measured"
    # The quota of 50 % of one thread is five seconds of processing time in ten seconds.
    cluster.quota("clients/app", request_percentage=50)
    assert timed(cluster, ask, 5_000)[1] == 0
    answer, muted_ms = timed(cluster, ask, 50)
    assert muted_ms == milliseconds(answer.throttle_time) == 100
    assert timed(cluster, ask, 3_000)[1] == 1_000, "at most one window"
    metadata = request(ApiKey.METADATA, 12, topics=[])
    answer, muted_ms = timed(cluster, metadata, 1)
    assert milliseconds(answer.throttle_time) == muted_ms == 1_000


def test_requests_between_brokers_are_exempt_from_client_quotas(cluster: Administrators) -> None:
    cluster.quota("clients/<default>", request_percentage=0.001)
    leaving = request(ApiKey.CONTROLLED_SHUTDOWN, 3, broker_id=7, broker_epoch=-1)
    assert timed(cluster, leaving, 9_000)[1] == 0
    fetch = request(ApiKey.FETCH, 12, replica_id=2, max_wait=0, min_bytes=0, max_bytes=9, topics=[], rack_id="")
    assert timed(cluster, fetch, 9_000)[1] == 0
    assert timed(cluster, request(ApiKey.LIST_GROUPS, 4), 1)[1] > 0


def test_fetch_throttled_by_request_time_does_not_use_byte_quota(cluster: Administrators) -> None:
    cluster.create("t", partitions=1)
    cluster.produce(9_000)
    cluster.quota("clients/app", request_percentage=1, consumer_byte_rate=1_000)
    topics = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}]
    fetch = request(ApiKey.FETCH, 12, replica_id=-1, max_wait=0, min_bytes=1, max_bytes=1 << 20, session_id=0,
                    session_epoch=-1, topics=topics, rack_id="")  # fmt: skip
    answer, muted_ms = timed(cluster, fetch, 500)
    assert (answer.responses, muted_ms, milliseconds(answer.throttle_time)) == ((), 1_000, 1_000)
    cluster.wait(12_000)
    answer, muted_ms = timed(cluster, fetch, 1)
    assert answer.responses[0].partitions[0].records and muted_ms == 0


def test_producer_is_throttled_by_the_stricter_of_two_quotas(cluster: Administrators) -> None:
    cluster.create("t", partitions=1)
    cluster.quota("clients/app", request_percentage=50, producer_byte_rate=1_000)
    rows = [{"name": "t", "partition_data": [{"index": 0, "records": batch("x" * 12_000)}]}]
    produce = request(ApiKey.PRODUCE, 9, acks=1, timeout=1_000, topic_data=rows)
    answer, muted_ms = timed(cluster, produce, 5_050)
    assert muted_ms == milliseconds(answer.throttle_time) and 2_000 < muted_ms < 2_500
