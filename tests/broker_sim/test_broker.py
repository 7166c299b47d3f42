from __future__ import annotations

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.logs.meta_properties import InconsistentMetaProperties
from zabka.broker_sim.request_context import RequestRefused
from zabka.journal.events import (
    BrokerRegistered,
    BrokerSessionChanged,
    ConfigChanged,
    ControllerBelieved,
    LeaderElected,
    NodeStarted,
    NodeStopped,
    RequestFenced,
    TopicPartition,
)
from zabka.kafka.record_batch import Record
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.kafka.zk import znodes
from zabka.kafka.zk.registration import BrokerIdInUse

P0 = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.stop_all()


def epoch_of(cluster: Cluster, broker_id: int) -> int:
    return cluster.ensemble.nodes[znodes.broker_path(broker_id)].czxid


# ---- start ----------------------------------------------------------------------------------------------------


def test_broker_epoch_is_the_czxid_of_its_registration(cluster: Cluster) -> None:
    cluster.start()
    for broker_id, node in cluster.nodes.items():
        assert node.broker.controller.broker_epoch == epoch_of(cluster, broker_id)
        assert [event.broker_epoch for event in node.of(BrokerRegistered)] == [epoch_of(cluster, broker_id)]
        assert [event.id for event in node.of(NodeStarted)] == [broker_id]
    assert znodes.decode_broker(2, cluster.ensemble.data("/brokers/ids/2")).endpoints[0].host == "broker-2"  # type: ignore[union-attr]
    for path in znodes.PERSISTENT_PATHS:
        assert path in cluster.ensemble.nodes


def test_port_assigned_by_the_operating_system_is_advertised(cluster: Cluster) -> None:
    from zabka.broker_sim.configs.listeners import Listener

    node = cluster.nodes[1]
    cluster.on(node, node.boot().start([Listener("PLAINTEXT", "broker-1", 41234)]))
    registered = znodes.decode_broker(1, cluster.ensemble.data("/brokers/ids/1"))
    assert registered is not None and registered.endpoints[0].port == 41234


def test_broker_waits_until_the_old_session_frees_its_broker_id(cluster: Cluster) -> None:
    cluster.start()
    node = cluster.nodes[3]
    before = epoch_of(cluster, 3)
    old_session = node.session.session_id
    node.kill()
    cluster.scheduler.after(4_000_000, lambda: cluster.ensemble.end_session(old_session))
    cluster.on(node, node.boot().start())
    assert epoch_of(cluster, 3) > before
    assert len(node.logged) == 1 and "still registered" in node.logged[0]


def test_broker_exits_if_a_live_broker_has_its_id(cluster: Cluster) -> None:
    cluster.start()
    twin = Cluster(1)
    twin.scheduler, twin.ensemble = cluster.scheduler, cluster.ensemble
    node = twin.nodes[1]
    before_us = cluster.scheduler.now_us
    failure: list[BaseException] = []

    async def start() -> None:
        try:
            await node.boot().start()
        except BrokerIdInUse as in_use:
            failure.append(in_use)

    node.boot()
    cluster.on(node, start())
    assert len(failure) == 1
    assert 12_000_000 <= cluster.scheduler.now_us - before_us <= 14_000_000
    node.runtime.stop()


def test_meta_properties_contain_cluster_and_broker_id(cluster: Cluster) -> None:
    cluster.start(1)
    text = cluster.nodes[1].directory.read_text("", "meta.properties")
    cluster_id = znodes.decode_cluster_id(cluster.ensemble.data(znodes.CLUSTER_ID))
    assert text is not None
    assert text.splitlines()[1:] == [f"cluster.id={cluster_id}", "version=0", "broker.id=1"]


@pytest.mark.parametrize(
    ("stored", "expected_text"),
    [
        ("cluster.id=another\nbroker.id=1\n", "doesn't match stored clusterId another"),
        ("broker.id=7\n", "doesn't match stored broker.id 7"),
    ],
)
def test_log_directory_of_another_cluster_or_broker_is_rejected(
    cluster: Cluster, stored: str, expected_text: str
) -> None:
    node = cluster.nodes[1]
    node.directory.write_text("", "meta.properties", stored)
    failures: list[str] = []

    async def start() -> None:
        try:
            await node.broker.start()
        except InconsistentMetaProperties as wrong:
            failures.append(str(wrong))

    node.boot()
    cluster.on(node, start())
    assert len(failures) == 1 and expected_text in failures[0]
    assert "/brokers/ids/1" not in cluster.ensemble.nodes


def test_unstarted_broker_does_not_respond(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    node.boot()
    refused: list[bool] = []

    async def ask() -> None:
        try:
            await node.broker.handle(request(ApiKey.METADATA, 12))
        except RequestRefused:
            refused.append(True)

    cluster.on(node, ask())
    assert refused == [True]


def test_restarted_broker_ignores_requests_for_its_old_process(
    cluster: Cluster,
) -> None:
    cluster.start()
    node = cluster.nodes[3]
    old_session, old_epoch = node.session.session_id, epoch_of(cluster, 3)
    node.kill()
    refused: list[bool] = []

    async def order() -> None:
        for key, version in ((ApiKey.LEADER_AND_ISR, 7), (ApiKey.STOP_REPLICA, 4), (ApiKey.UPDATE_METADATA, 8)):
            sent = request(key, version, controller_id=1, controller_epoch=1, broker_epoch=old_epoch)
            try:
                await node.broker.handle(sent)
            except RequestRefused:
                refused.append(True)

    cluster.scheduler.after(2_000_000, lambda: node.runtime.spawn(order(), "order"))
    cluster.scheduler.after(4_000_000, lambda: cluster.ensemble.end_session(old_session))
    cluster.on(node, node.boot().start())
    assert refused == [True] * 3


# ---- session --------------------------------------------------------------------------------------------------


def test_expired_broker_resigns_and_registers_again(cluster: Cluster) -> None:
    cluster.start()
    first = cluster.controller
    before = epoch_of(cluster, first.broker_id)
    cluster.expire(first)
    cluster.wait(1_000)
    assert epoch_of(cluster, first.broker_id) > before
    assert cluster.controller.broker.controller.controller_epoch == 2
    states = [event.state for event in first.of(BrokerSessionChanged)]
    assert states == ["connected", "expired", "connected"]
    names = [type(event).__name__ for event in first.events]
    assert names.index("ControllerResigned") < len(names) - names[::-1].index("BrokerRegistered")


def test_config_changes_during_session_expiry_are_read_later(cluster: Cluster) -> None:
    cluster.start()
    cluster.run(cluster.client.create_topic("orders", 1, 3))
    node = next(n for n in cluster.nodes.values() if n is not cluster.controller)
    cluster.ensemble.put("/config/topics/orders", znodes.encode_config({"min.insync.replicas": "2"}))
    assert node.broker.configs.topic_overrides("orders") == {}
    cluster.expire(node)
    cluster.wait(1_000)
    assert node.broker.configs.topic_overrides("orders") == {"min.insync.replicas": "2"}
    assert node.of(ConfigChanged)[-1].config == {"min.insync.replicas": "2"}


# ---- the broker's belief and its status -----------------------------------------------------------------------


def test_topic_config_applies_to_a_log_before_broker_leads_it() -> None:
    cluster = Cluster(1).start()
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    node = cluster.nodes[1]
    node.kill()
    broker = node.boot()
    broker.replicas.start()
    (log,) = [log for _, log in broker.replicas.logs.all()]
    broker.configs._overrides["topics/orders"] = {"segment.bytes": "77", "segment.ms": "88"}
    broker.replicas.topic_configs_changed(["orders"])
    assert not broker.replicas.partitions and (log.segment_bytes, log.segment_ms) == (77, 88)
    cluster.stop_all()


def test_controller_beliefs_of_brokers_are_journaled(cluster: Cluster) -> None:
    cluster.start()
    first = cluster.controller
    for node in cluster.nodes.values():
        believed = node.of(ControllerBelieved)[-1]
        assert (believed.controller_id, believed.controller_epoch) == (first.broker_id, 1)
        assert believed.is_controller == (node is first)


def test_broker_status_shows_its_own_view_of_the_cluster(cluster: Cluster) -> None:
    cluster.start()
    cluster.run(cluster.client.create_topic("orders", 1, 3, assignment={0: [2, 1, 3]}))
    cluster.run(cluster.client.produce(P0, [Record(None, b"x")] * 3))
    cluster.wait(1_000)
    status = cluster.nodes[1].broker.status()
    assert status["broker_id"] == 1
    assert status["state"] == "running"
    assert status["broker_epoch"] == epoch_of(cluster, 1)
    assert status["believes"]["controller_id"] == cluster.controller.broker_id
    assert status["believes"]["controller_epoch"] == 1
    assert status["is_controller"] == (cluster.controller.broker_id == 1)
    row = {"topic": "orders", "partition": 0, "leader": 2, "leader_epoch": 0, "isr": [2, 1, 3], "hw": 3, "leo": 3}
    assert status["partitions"] == [row]
    assert cluster.nodes[2].broker.status()["partitions"] == [{**row, "min_isr": 1}]


def test_age_of_a_belief_grows_until_it_is_confirmed(cluster: Cluster) -> None:
    cluster.start()
    node = next(n for n in cluster.nodes.values() if n is not cluster.controller)
    cluster.wait(5_000)
    assert node.broker.status()["believes"]["age_ms"] >= 5_000
    cluster.on(node, node.broker.confirm_controller())
    assert node.broker.status()["believes"]["age_ms"] <= 10


# ---- fencing by controller and leader epochs ------------------------------------------------------------------


def update_metadata(**values: int) -> object:
    fields = {"controller_id": 9, "controller_epoch": 1, "broker_epoch": -1, **values}
    return request(ApiKey.UPDATE_METADATA, 8, **fields)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"broker_epoch": 1}, ErrorCode.stale_broker_epoch),
        ({"controller_epoch": 0}, ErrorCode.stale_controller_epoch),
        ({"broker_epoch": 2**60}, ErrorCode.none),
        ({"controller_epoch": 1}, ErrorCode.none),
    ],
)
@pytest.mark.parametrize("key", [ApiKey.UPDATE_METADATA, ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA])
def test_control_request_is_fenced_by_controller_or_broker_epoch(
    cluster: Cluster, key: ApiKey, fields: dict[str, int], error: ErrorCode
) -> None:
    cluster.start()
    node = cluster.nodes[2]
    version = {ApiKey.UPDATE_METADATA: 8, ApiKey.LEADER_AND_ISR: 7, ApiKey.STOP_REPLICA: 4}[key]
    sent = request(key, version, **{"controller_id": 9, "controller_epoch": 1, "broker_epoch": -1, **fields})
    before = node.broker.metadata.generation
    assert cluster.on(node, node.broker.handle(sent)).error_code is error
    fenced = node.of(RequestFenced)
    assert [event.reason for event in fenced] == ([] if error is ErrorCode.none else [error.name.upper()])
    if error is not ErrorCode.none:
        assert node.broker.metadata.generation == before


# ---- shutdown -------------------------------------------------------------------------------------------------


def test_clean_shutdown_first_moves_partition_leadership(cluster: Cluster) -> None:
    cluster.start()
    cluster.run(cluster.client.create_topic("orders", 6, 3))
    node = next(n for n in cluster.nodes.values() if n is not cluster.controller)
    cluster.on(node, node.broker.stop())
    elected = [event for event in cluster.controller.of(LeaderElected) if event.cause and event.leader_epoch > 0]
    assert elected and all(event.leader != node.broker_id for event in elected)
    assert f"/brokers/ids/{node.broker_id}" not in cluster.ensemble.nodes
    assert [event.reason for event in node.of(NodeStopped)] == ["shutdown"]
    cluster.wait(300)
    described = cluster.run(cluster.client.metadata(["orders"])).topics["orders"]
    assert all(row.leader > 0 and node.broker_id not in row.isr for row in described.partitions)


def test_uncontrolled_shutdown_moves_no_partition_leadership() -> None:
    cluster = Cluster(2, controlled_shutdown_enable="false").start()
    cluster.run(cluster.client.create_topic("orders", 4, 2))
    node = next(n for n in cluster.nodes.values() if n is not cluster.controller)
    cluster.on(node, node.broker.stop())
    cluster.wait(500)
    causes = [event.cause for event in cluster.controller.of(LeaderElected) if event.leader_epoch > 0]
    assert "offline" in causes and "controlled_shutdown" not in causes
    cluster.stop_all()


def test_stopping_controller_moves_its_partition_leadership(cluster: Cluster) -> None:
    cluster.start()
    cluster.run(cluster.client.create_topic("orders", 6, 3))
    first = cluster.controller
    cluster.on(first, first.broker.stop())
    cluster.wait(500)
    first.runtime.stop()
    assert cluster.controller.broker.controller.controller_epoch == 2
    described = cluster.run(cluster.client.metadata(["orders"])).topics["orders"]
    assert all(row.leader not in (-1, first.broker_id) for row in described.partitions)


def test_last_broker_to_stop_does_not_wait_for_another_leader(cluster: Cluster) -> None:
    cluster.start()
    cluster.run(cluster.client.create_topic("orders", 3, 3))
    for broker_id in (1, 2, 3):
        before_us = cluster.scheduler.now_us
        node = cluster.nodes[broker_id]
        cluster.on(node, node.broker.stop())
        node.runtime.stop()
        cluster.wait(200)
        assert cluster.scheduler.now_us - before_us < 2_000_000


def test_all_brokers_can_stop_at_the_same_time(cluster: Cluster) -> None:
    cluster.start()
    cluster.run(cluster.client.create_topic("orders", 3, 3))
    before_us = cluster.scheduler.now_us
    for node in cluster.nodes.values():
        node.runtime.spawn(node.broker.stop(), "stop")
    while any(node.broker.state != "stopped" for node in cluster.nodes.values()):
        assert cluster.scheduler.now_us - before_us < 12_000_000
        cluster.wait(100)


# ---- automatic topic creation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("asks_controller", [True, False])
def test_metadata_request_creates_a_topic_if_enabled(cluster: Cluster, asks_controller: bool) -> None:
    cluster.start()
    node = next(n for n in cluster.nodes.values() if (n is cluster.controller) == asks_controller)
    asked = request(ApiKey.METADATA, 12, topics=[{"name": "fresh"}], allow_auto_topic_creation=True)
    answer = cluster.on(node, node.broker.handle(asked))
    assert answer.topics[0].error_code is ErrorCode.leader_not_available
    cluster.wait(500)
    answer = cluster.on(node, node.broker.handle(asked))
    assert answer.topics[0].error_code is ErrorCode.none
    assert [row.leader_id > 0 for row in answer.topics[0].partitions] == [True]


@pytest.mark.parametrize("asks_controller", [True, False])
def test_find_coordinator_creates_the_offsets_topic(cluster: Cluster, asks_controller: bool) -> None:
    cluster.start()
    node = next(n for n in cluster.nodes.values() if (n is cluster.controller) == asks_controller)
    asked = request(ApiKey.FIND_COORDINATOR, 3, key="group", key_type=0)
    answer = cluster.on(node, node.broker.handle(asked))
    assert answer.error_code is ErrorCode.coordinator_not_available
    cluster.wait(2_000)
    assert cluster.on(node, node.broker.handle(asked)).error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("name", "keys", "error"),
    [
        ("a b", {}, ErrorCode.invalid_topic_exception),
        ("fresh", {"auto_create_topics_enable": "false"}, ErrorCode.unknown_topic_or_partition),
        ("fresh", {"default_replication_factor": "5"}, ErrorCode.invalid_replication_factor),
    ],
)
def test_failed_automatic_topic_creation_returns_the_reason(name: str, keys: dict[str, str], error: ErrorCode) -> None:
    cluster = Cluster(1, **keys).start()
    node = cluster.nodes[1]
    asked = request(ApiKey.METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=True)
    assert cluster.on(node, node.broker.handle(asked)).topics[0].error_code is error
    cluster.stop_all()


# ---- configuration changes ------------------------------------------------------------------------------------


def test_topic_min_insync_replicas_applies_from_the_first_record(cluster: Cluster) -> None:
    cluster.start()
    cluster.run(cluster.client.create_topic("orders", 1, 3, configs={"min.insync.replicas": "3"}))
    follower = cluster.nodes[cluster.run(cluster.client.metadata(["orders"])).topics["orders"].partitions[0].isr[1]]
    session = follower.session.session_id
    follower.kill()
    cluster.ensemble.end_session(session)
    cluster.wait(500)
    assert cluster.refused(cluster.client.produce(P0, [Record(None, b"x")], timeout_ms=1_000)) == (
        ErrorCode.not_enough_replicas,
        "NOT_ENOUGH_REPLICAS",
    )


@pytest.mark.scenario(45)
def test_enabling_topic_unclean_election_elects_immediately(cluster: Cluster) -> None:
    cluster.start()
    survivor = cluster.controller
    leader, follower = (n for n in cluster.nodes.values() if n is not survivor)
    ids = (leader.broker_id, follower.broker_id)
    cluster.run(cluster.client.create_topic("orders", 1, assignment={0: ids}))
    for node in (follower, leader):
        session = node.session.session_id
        node.kill()
        cluster.ensemble.end_session(session)
        cluster.wait(500)
    node = follower
    cluster.on(node, node.boot().start())
    cluster.wait(1_000)
    assert cluster.run(cluster.client.metadata(["orders"])).topics["orders"].partitions[0].leader == -1
    cluster.run(cluster.client.alter_configs(2, "orders", {"unclean.leader.election.enable": "true"}))
    cluster.wait(500)
    assert cluster.run(cluster.client.metadata(["orders"])).topics["orders"].partitions[0].leader == ids[1]
    assert survivor.of(LeaderElected)[-1].unclean


def test_enabling_broker_unclean_election_elects_immediately(cluster: Cluster) -> None:
    cluster.start()
    survivor = cluster.controller
    leader, follower = (n for n in cluster.nodes.values() if n is not survivor)
    cluster.run(cluster.client.create_topic("orders", 1, assignment={0: (leader.broker_id, follower.broker_id)}))
    for node in (follower, leader):
        session = node.session.session_id
        node.kill()
        cluster.ensemble.end_session(session)
        cluster.wait(500)
    cluster.on(follower, follower.boot().start())
    cluster.wait(1_000)
    cluster.run(cluster.client.alter_configs(4, "", {"unclean.leader.election.enable": "true"}))
    cluster.wait(500)
    described = cluster.run(cluster.client.metadata(["orders"])).topics["orders"]
    assert described.partitions[0].leader == follower.broker_id


def test_metadata_response_is_cached_until_metadata_changes(cluster: Cluster) -> None:
    cluster.start()
    node = cluster.nodes[1]
    asked = request(ApiKey.METADATA, 12, topics=None)
    first = cluster.on(node, node.broker.handle(asked))
    assert cluster.on(node, node.broker.handle(asked)) is first
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    assert cluster.on(node, node.broker.handle(asked)) is not first


def test_session_that_expires_during_startup_is_replaced(cluster: Cluster) -> None:
    cluster.start()
    node = cluster.nodes[3]
    old_session = node.session.session_id
    node.kill()
    node.boot()
    cluster.scheduler.after(1_000_000, lambda: cluster.expire(node))
    cluster.scheduler.after(3_000_000, lambda: cluster.ensemble.end_session(old_session))
    cluster.on(node, node.broker.start())
    cluster.wait(500)
    assert node.broker.state == "running"
    assert node.broker.controller.broker_epoch == epoch_of(cluster, 3)
    assert cluster.ensemble.nodes["/brokers/ids/3"].owner == node.session.session_id


def test_shutdown_before_the_logs_are_open_leaves_them_unchanged(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    node.directory.write_text("", "replication-offset-checkpoint", "0\n1\norders 0 7\n")
    node.boot()
    answered = cluster.runtime.future()
    answered.set_result(None)
    node.session.start = cluster.runtime.future  # type: ignore[assignment,method-assign]
    node.session.close = lambda: answered  # type: ignore[assignment,method-assign]
    starting = node.runtime.spawn(node.broker.start(), "start")
    cluster.wait(100)
    starting.cancel()
    cluster.on(node, node.broker.stop())
    assert node.directory.read_text("", "replication-offset-checkpoint") == "0\n1\norders 0 7\n"
    assert node.directory.read_text("", ".kafka_cleanshutdown") is None
    assert [event.reason for event in node.of(NodeStopped)] == ["shutdown"]
