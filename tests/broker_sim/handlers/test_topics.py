from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.ensemble.client.service import Op
from zabka.journal.events import WriteFenced
from zabka.kafka.assignment import RacksIncomplete, assign_replicas
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.topic_names import collide, invalid_name
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.kafka.zk import znodes


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster().start()
    yield made
    made.stop_all()


def create(cluster: Cluster, name: str, *args: Any, **kwargs: Any) -> tuple[ErrorCode, str] | None:
    return cluster.refused(cluster.client.create_topic(name, *args, **kwargs))


# ---- create ---------------------------------------------------------------------------------------------------


def test_topic_znodes_have_kafkas_format(cluster: Cluster) -> None:
    topic_id = cluster.run(
        cluster.client.create_topic("orders", assignment={0: [1, 2], 1: [2, 3]}, configs={"min.insync.replicas": "2"})
    )
    assert cluster.ensemble.data("/brokers/topics/orders") == (
        b'{"version":3,"partitions":{"0":[1,2],"1":[2,3]},"adding_replicas":{},"removing_replicas":{},"topic_id":"%b"}'
        % topic_id.encode()
    )
    assert cluster.ensemble.data("/config/topics/orders") == b'{"version":1,"config":{"min.insync.replicas":"2"}}'


def test_create_topics_waits_until_all_partitions_have_leaders(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 7, 3))
    described = cluster.run(cluster.client.metadata(["orders"])).topics["orders"]
    assert len(described.partitions) == 7
    assert all(row.leader > 0 and len(row.isr) == 3 for row in described.partitions)


def test_topic_without_partition_or_replica_count_gets_defaults() -> None:
    cluster = Cluster(num_partitions="4", default_replication_factor="2").start()
    cluster.run(cluster.client.create_topic("orders"))
    described = cluster.run(cluster.client.metadata(["orders"])).topics["orders"]
    assert [len(row.replicas) for row in described.partitions] == [2] * 4
    cluster.stop_all()


REFUSALS: list[tuple[dict[str, Any], ErrorCode, str]] = [
    ({"name": "a b"}, ErrorCode.invalid_topic_exception, "contains one or more characters other than"),
    ({"name": ""}, ErrorCode.invalid_topic_exception, "the empty string is not allowed"),
    ({"name": ".."}, ErrorCode.invalid_topic_exception, "'..' is not allowed"),
    ({"name": "x" * 250}, ErrorCode.invalid_topic_exception, "longer than the max allowed length 249"),
    ({"name": "taken"}, ErrorCode.topic_already_exists, "Topic 'taken' already exists."),
    ({"name": "with_dot"}, ErrorCode.invalid_topic_exception, "collides with existing topics: with.dot"),
    ({"partitions": 0}, ErrorCode.invalid_partitions, "Number of partitions must be larger than 0."),
    ({"partitions": 10**6}, ErrorCode.invalid_partitions, "must not exceed"),
    ({"replication_factor": 0}, ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0."),
    (
        {"replication_factor": 4},
        ErrorCode.invalid_replication_factor,
        "Replication factor: 4 larger than available brokers: 3.",
    ),
    ({"assignment": {0: [1], 2: [2]}}, ErrorCode.invalid_replica_assignment, "consecutive 0-based"),
    ({"assignment": {0: [1, 1]}}, ErrorCode.invalid_replica_assignment, "Duplicate replica assignment"),
    ({"assignment": {0: [1, 2], 1: [3]}}, ErrorCode.invalid_replica_assignment, "same number of replicas"),
    ({"configs": {"no.such": "1"}}, ErrorCode.invalid_config, "Unknown topic config name: no.such"),
    (
        {"configs": {"min.insync.replicas": "0"}},
        ErrorCode.invalid_config,
        "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
    ),
    (
        {"configs": {"unclean.leader.election.enable": "invalid"}},
        ErrorCode.invalid_config,
        "Invalid value invalid for configuration unclean.leader.election.enable: "
        "Expected value to be either true or false",
    ),
    (
        {"configs": {"retention.ms": "soon"}},
        ErrorCode.invalid_config,
        "Invalid value soon for configuration retention.ms: Not a number of type LONG",
    ),
    ({"configs": {"cleanup.policy": "burn"}}, ErrorCode.invalid_config, "String must be one of: compact, delete"),
]


@pytest.mark.parametrize(("values", "error", "expected_text"), REFUSALS)
def test_invalid_topic_is_rejected_with_kafkas_error(
    cluster: Cluster, values: dict[str, Any], error: ErrorCode, expected_text: str
) -> None:
    for taken in ("taken", "with.dot"):
        cluster.run(cluster.client.create_topic(taken, 1, 1))
    before = dict(cluster.ensemble.nodes)
    refused = create(cluster, **{"name": "orders", "partitions": 1, "replication_factor": 1, **values})
    assert refused is not None and refused[0] is error and expected_text in refused[1]
    assert cluster.ensemble.nodes.keys() == before.keys()


def test_create_topics_with_validate_only_writes_nothing(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 1, 1, validate_only=True))
    assert "/brokers/topics/orders" not in cluster.ensemble.nodes
    refused = create(cluster, "a b", 1, 1, validate_only=True)
    assert refused is not None and refused[0] is ErrorCode.invalid_topic_exception


def test_partition_count_together_with_an_assignment_is_rejected(cluster: Cluster) -> None:
    row = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [{"partition_index": 0}]}
    answer = at_controller(cluster, request(ApiKey.CREATE_TOPICS, 7, topics=[row], timeout=1_000))
    assert answer.topics[0].error_code is ErrorCode.invalid_request


def test_repeated_topic_is_rejected_and_others_are_created(cluster: Cluster) -> None:
    rows = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("a", "b", "a")]
    answer = at_controller(cluster, request(ApiKey.CREATE_TOPICS, 7, topics=rows, timeout=5_000))
    assert {row.name: row.error_code for row in answer.topics} == {"a": ErrorCode.invalid_request, "b": ErrorCode.none}


@pytest.mark.parametrize(
    ("key", "version", "rows", "name", "more"),
    [
        (ApiKey.CREATE_TOPICS, 7, "topics", "name", {"num_partitions": 1, "replication_factor": 1}),
        (ApiKey.CREATE_PARTITIONS, 3, "topics", "name", {"count": 3, "assignments": None}),
        (ApiKey.ALTER_CONFIGS, 2, "resources", "resource_name", {"resource_type": 2, "configs": []}),
    ],
    ids=["create topics", "create partitions", "alter configs"],
)
def test_request_time_is_linear_in_the_number_of_topic_names(
    cluster: Cluster, key: ApiKey, version: int, rows: str, name: str, more: dict[str, Any]
) -> None:
    # All names together have less than a megabyte. Before the fix, comparing each name with all others took half a
    # minute.
    node = cluster.controller
    named: Any = [{name: f"no topic {number}", **more} for number in range(40_000)]
    asked = request(key, version, validate_only=True, **{rows: named})
    began_s = thread_time()
    cluster.on(node, node.broker.handle(asked, "c", "PLAINTEXT"))
    assert thread_time() - began_s < 10


def test_only_the_controller_creates_topics(cluster: Cluster) -> None:
    node = next(n for n in cluster.nodes.values() if n is not cluster.controller)
    for message in (
        request(ApiKey.CREATE_TOPICS, 7, topics=[{"name": "t"}], timeout=1_000),
        request(ApiKey.CREATE_PARTITIONS, 3, topics=[{"name": "t", "count": 3}], timeout=1_000),
        request(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "t"}], timeout=1_000),
    ):
        answer = cluster.on(node, node.broker.handle(message))
        rows = getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
        assert [row.error_code for row in rows] == [ErrorCode.not_controller]
    assert "/brokers/topics/t" not in cluster.ensemble.nodes


@pytest.mark.parametrize(
    "message",
    [
        request(ApiKey.CREATE_TOPICS, 7, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}]),
        request(ApiKey.CREATE_PARTITIONS, 3, topics=[{"name": "orders", "count": 5, "assignments": None}]),
        request(ApiKey.DELETE_TOPICS, 5, topic_names=["orders"], timeout=5_000),
    ],
)
def test_zombie_controller_cannot_create_extend_or_delete_topics(cluster: Cluster, message: KafkaMessage) -> None:
    # In Kafka a zombie controller can create, extend and delete topics, because the writes of ZkAdminManager are not
    # fenced.
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    zombie = cluster.controller
    cluster.ensemble.put(znodes.CONTROLLER_EPOCH, b"9")
    before = cluster.ensemble.data("/brokers/topics/orders")
    answer = cluster.on(zombie, zombie.broker.handle(message))
    rows = getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
    assert [row.error_code for row in rows] == [ErrorCode.not_controller]
    assert not {"/brokers/topics/t", "/config/topics/t", "/admin/delete_topics/orders"} & set(cluster.ensemble.nodes)
    assert cluster.ensemble.data("/brokers/topics/orders") == before
    assert "controller_epoch" in {event.reason for event in zombie.of(WriteFenced)}


def test_topic_creation_without_leaders_in_time_returns_timeout(cluster: Cluster) -> None:
    refused = create(cluster, "orders", assignment={0: [9]}, timeout_ms=1_000)
    assert refused is not None and refused[0] is ErrorCode.request_timed_out
    assert "/brokers/topics/orders" in cluster.ensemble.nodes


def test_topic_creation_succeeds_if_a_zookeeper_response_is_lost(cluster: Cluster) -> None:
    session = cluster.controller.session
    lost: list[str] = []
    multi = session.multi

    def losing(ops: Sequence[Op]) -> Any:
        if ops[-1].path == "/brokers/topics/orders" and not lost:
            lost.append(ops[-1].path)
            session.lose_replies = 1
        return multi(ops)

    session.multi = losing  # type: ignore[method-assign]
    assert create(cluster, "orders", 1, 1) is None
    assert lost == ["/brokers/topics/orders"]


@pytest.mark.parametrize("version", range(8))
def test_create_topics_supports_every_version(cluster: Cluster, version: int) -> None:
    row = {"name": f"v{version}", "num_partitions": 2, "replication_factor": 1}
    answer = at_controller(cluster, request(ApiKey.CREATE_TOPICS, version, topics=[row], timeout=5_000))
    assert answer.topics[0].error_code is ErrorCode.none
    if version >= 5:
        assert answer.topics[0].num_partitions == 2


def test_existing_and_internal_topic_names_are_rejected(cluster: Cluster) -> None:
    rows = [
        {"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("a", "a", "b", "__cluster_metadata")
    ]
    answer = at_controller(cluster, request(ApiKey.CREATE_TOPICS, 7, topics=rows, timeout=5_000))
    assert {row.name: (row.error_code, row.error_message) for row in answer.topics} == {
        "a": (ErrorCode.invalid_request, "Found multiple entries for this topic."),
        "b": (ErrorCode.none, None),
        "__cluster_metadata": (
            ErrorCode.invalid_request,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    }


def at_controller(cluster: Cluster, message: Any) -> Any:
    node = cluster.controller
    return cluster.on(node, node.broker.handle(message))


# ---- delete ---------------------------------------------------------------------------------------------------


def test_deleted_topic_has_no_metadata_and_no_znodes(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 3, 3))
    cluster.run(cluster.client.delete_topic("orders"))
    cluster.wait(1_000)
    assert "orders" not in cluster.run(cluster.client.metadata()).topics
    for path in ("/brokers/topics/orders", "/config/topics/orders", "/admin/delete_topics/orders"):
        assert path not in cluster.ensemble.nodes
    for node in cluster.nodes.values():
        assert node.directory.partitions() == []


def test_recreated_topic_has_a_new_id(cluster: Cluster) -> None:
    first = cluster.run(cluster.client.create_topic("orders", 1, 3, configs={"min.insync.replicas": "3"}))
    cluster.run(cluster.client.delete_topic("orders"))
    cluster.wait(1_000)
    assert cluster.run(cluster.client.create_topic("orders", 1, 3)) != first
    for node in cluster.nodes.values():
        assert node.broker.configs.topic_overrides("orders") == {}


def test_deletion_of_an_unknown_topic_is_rejected(cluster: Cluster) -> None:
    refused = cluster.refused(cluster.client.delete_topic("nothing"))
    assert refused is not None and refused[0] is ErrorCode.unknown_topic_or_partition


def test_topic_deletion_can_be_disabled() -> None:
    cluster = Cluster(1, delete_topic_enable="false").start()
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    refused = cluster.refused(cluster.client.delete_topic("orders"))
    assert refused is not None and refused[0] is ErrorCode.topic_deletion_disabled
    old = at_controller(cluster, request(ApiKey.DELETE_TOPICS, 2, topic_names=["orders"], timeout=5_000))
    assert old.responses[0].error_code is ErrorCode.invalid_request, "older clients have no better error"
    cluster.stop_all()


def test_topic_can_be_deleted_by_its_id(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    topic_id = cluster.controller.broker.metadata.topic_id("orders")
    other = type(topic_id)(int=77)
    rows = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": other}]
    answer = at_controller(cluster, request(ApiKey.DELETE_TOPICS, 6, topics=rows, timeout=5_000))
    assert {row.topic_id: (row.name, row.error_code) for row in answer.responses} == {
        topic_id: ("orders", ErrorCode.none),
        other: (None, ErrorCode.unknown_topic_id),
    }


def test_older_delete_topics_versions_identify_topics_by_name(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    answer = at_controller(cluster, request(ApiKey.DELETE_TOPICS, 1, topic_names=["orders"], timeout=5_000))
    assert [(row.name, row.error_code) for row in answer.responses] == [("orders", ErrorCode.none)]


# ---- add partitions -------------------------------------------------------------------------------------------


def test_added_partitions_do_not_change_existing_ones(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", assignment={0: [2, 3]}))
    cluster.run(cluster.client.create_partitions("orders", 4))
    stored = znodes.decode_topic(cluster.ensemble.data("/brokers/topics/orders"))
    assert stored is not None and stored.partitions[0].replicas == (2, 3)
    assert [len(set(row.replicas)) for row in stored.partitions.values()] == [2] * 4
    described = cluster.run(cluster.client.metadata(["orders"])).topics["orders"]
    assert all(row.leader > 0 for row in described.partitions) and len(described.partitions) == 4


@pytest.mark.parametrize(
    ("total", "assignments", "error", "expected_text"),
    [
        (
            1,
            None,
            ErrorCode.invalid_partitions,
            "has 2 partitions, which is higher than the requested 1.",
        ),
        (2, None, ErrorCode.invalid_partitions, "Topic already has 2 partitions."),
        (4, [[1]], ErrorCode.invalid_replica_assignment, "by 2 but 1 assignments provided"),
        (3, [[9, 1]], ErrorCode.invalid_replica_assignment, "Unknown broker(s) in replica assignment: 9."),
        (3, [[1]], ErrorCode.invalid_replica_assignment, "Inconsistent replication factor"),
    ],
)
def test_invalid_partition_increase_is_rejected(
    cluster: Cluster, total: int, assignments: list[list[int]] | None, error: ErrorCode, expected_text: str
) -> None:
    cluster.run(cluster.client.create_topic("orders", 2, 2))
    refused = cluster.refused(cluster.client.create_partitions("orders", total, assignments=assignments))
    assert refused is not None and refused[0] is error and expected_text in refused[1]


def test_partition_count_is_limited_by_the_znode_size(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.run(cluster.client.create_topic("orders", 2, 2))
    size = len(cluster.ensemble.data("/brokers/topics/orders"))
    monkeypatch.setattr(znodes, "ZNODE_BYTES_MAX", size + 10)
    refused = cluster.refused(cluster.client.create_partitions("orders", 4))
    assert refused == (ErrorCode.invalid_request, f"The topic needs a znode of more than {size + 10} bytes.")
    cluster.run(cluster.client.create_partitions("orders", 3))


def test_partition_increase_of_an_unknown_topic_is_rejected(cluster: Cluster) -> None:
    refused = cluster.refused(cluster.client.create_partitions("nothing", 3))
    assert refused is not None and refused[0] is ErrorCode.unknown_topic_or_partition


def test_concurrent_partition_increases_are_both_kept(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    session = cluster.controller.session
    set_znode, beaten = session.set, []

    def beaten_once(path: str, data: bytes | None, version: int = -1) -> Any:
        if path == "/brokers/topics/orders" and not beaten:
            beaten.append(path)
            cluster.ensemble.put(path, cluster.ensemble.data(path).replace(b'"0":', b'"1":[2],"0":'))
        return set_znode(path, data, version)

    session.set = beaten_once  # type: ignore[method-assign]
    cluster.run(cluster.client.create_partitions("orders", 3))
    stored = znodes.decode_topic(cluster.ensemble.data("/brokers/topics/orders"))
    assert stored is not None and stored.partitions[1].replicas == (2,) and len(stored.partitions) == 3


# ---- elections ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_elect_leaders_supports_every_version(cluster: Cluster, version: int) -> None:
    cluster.run(cluster.client.create_topic("orders", 1, 3))
    rows = [{"topic": "orders", "partitions": [0]}, {"topic": "nothing", "partitions": [5]}]
    message = request(ApiKey.ELECT_LEADERS, version, topic_partitions=rows, election_type=0)
    answer = at_controller(cluster, message)
    assert {
        (t.topic, r.partition_id): r.error_code for t in answer.replica_election_results for r in t.partition_result
    } == {
        ("orders", 0): ErrorCode.election_not_needed,
        ("nothing", 5): ErrorCode.unknown_topic_or_partition,
    }


# ---- topic names and replica assignments -----------------------------------------------------------------------


@given(st.text(alphabet="abz09._-", min_size=1, max_size=249).filter(lambda name: name not in (".", "..")))
def test_topic_name_of_allowed_characters_is_valid(name: str) -> None:
    assert invalid_name(name) is None


@pytest.mark.parametrize("name", ["a/b", "a\n", "ä", "a:b", "a\x00", " "])
def test_topic_name_with_other_characters_is_rejected(name: str) -> None:
    assert invalid_name(name) is not None


def test_names_that_differ_only_in_period_or_underscore_clash() -> None:
    assert collide("a.b_c", "a_b.c") and not collide("a.b", "a-b")


@given(st.integers(1, 8), st.integers(1, 40), st.data())
def test_replicas_are_spread_evenly_without_duplicates(count: int, partitions: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, count))
    brokers = list(range(10, 10 + count))
    made = assign_replicas(brokers, partitions, factor, Random(data.draw(st.integers(0, 99))))
    assert list(made) == list(range(partitions))
    assert all(len(set(replicas)) == factor for replicas in made.values())
    leaders = [sum(replicas[0] == broker for replicas in made.values()) for broker in brokers]
    assert max(leaders) - min(leaders) <= 1


def test_replica_assignment_matches_the_example_of_admin_utils() -> None:
    # Example from the documentation of Kafka's AdminUtils: 10 partitions, 5 brokers, 3 replicas, and the first replica
    # on broker 0.
    made = assign_replicas(range(5), 10, 3, Random(0), start_index=0)
    assert made == {
        0: (0, 1, 2), 1: (1, 2, 3), 2: (2, 3, 4), 3: (3, 4, 0), 4: (4, 0, 1),
        5: (0, 2, 3), 6: (1, 3, 4), 7: (2, 4, 0), 8: (3, 0, 1), 9: (4, 1, 2),
    }  # fmt: skip


def test_znode_over_zookeepers_limit_is_rejected_before_sending(cluster: Cluster) -> None:
    refused = create(cluster, "orders", 1, 1, configs={"message.format.version": "x" * 1_100_000})
    assert refused is not None and refused[0] is ErrorCode.invalid_request


RACKS: dict[int, str | None] = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def test_replicas_are_assigned_to_different_racks() -> None:
    # The replica assignment that Kafka 3.9.1's AdminUtils computes for the same input.
    made = assign_replicas(range(6), 8, 3, Random(0), racks=RACKS, start_index=0)
    assert made == {
        0: (0, 3, 1), 1: (3, 1, 5), 2: (1, 5, 4), 3: (5, 4, 2), 4: (4, 2, 0), 5: (2, 0, 3), 6: (0, 4, 2), 7: (3, 2, 0),
    }  # fmt: skip
    grown = assign_replicas(range(6), 4, 4, Random(0), racks=RACKS, first_partition=5, start_index=2)
    assert grown == {5: (3, 5, 2, 0), 6: (1, 3, 5, 4), 7: (5, 1, 4, 2), 8: (4, 5, 2, 0)}


def test_replica_assignment_requires_a_rack_of_each_used_broker() -> None:
    with pytest.raises(RacksIncomplete):
        assign_replicas(range(6), 1, 1, Random(0), racks={**RACKS, 3: None})
    assert assign_replicas([0, 1], 1, 1, Random(0), racks={**RACKS, 3: None})


def test_topic_creation_uses_racks_and_fails_if_a_rack_is_unset() -> None:
    cluster = Cluster(4)
    for node in cluster.nodes.values():
        node.keys["broker.rack"] = f"r{node.broker_id % 2}"
    cluster.start()
    cluster.run(cluster.client.create_topic("t", 6, 2))
    cluster.run(cluster.client.create_partitions("t", 12))
    rows = cluster.run(cluster.client.metadata(["t"])).topics["t"].partitions
    assert len(rows) == 12 and all({b % 2 for b in row.replicas} == {0, 1} for row in rows)
    cluster.stop_all()
    cluster = Cluster(2)
    cluster.nodes[1].keys["broker.rack"] = "r"
    cluster.start()
    message = "Not all brokers have rack information for replica rack aware assignment."
    assert cluster.refused(cluster.client.create_topic("t", 1, 1)) == (ErrorCode.unknown_server_error, message)
    cluster.stop_all()
