from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.logs.small_log import append, read_all
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.configs.broker_config import config_from
from zabka.broker_sim.configs.broker_keys import KAFKA_KEYS
from zabka.broker_sim.configs.config_resources import Operation, Source
from zabka.broker_sim.logs.log_manager import LogDir
from zabka.journal.events import ConfigChanged
from zabka.kafka.client.admin_client import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigEntry
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.kafka.zk import znodes


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster().start()
    made.run(made.client.create_topic("orders", 1, 3))
    yield made
    made.stop_all()


def entry(cluster: Cluster, name: str, kind: int = TOPIC_RESOURCE, resource: str = "orders") -> ConfigEntry:
    entries = cluster.run(cluster.client.describe_configs(kind, resource))
    return next(each for each in entries if each.name == name)


def alter(cluster: Cluster, changes: dict[str, str | None], kind: int = TOPIC_RESOURCE, name: str = "orders") -> Any:
    return cluster.refused(cluster.client.alter_configs(kind, name, changes))


def at_one(cluster: Cluster, message: Any) -> Any:
    node = cluster.nodes[1]
    return cluster.on(node, node.broker.handle(message))


def test_config_change_is_stored_with_notification_and_applied(cluster: Cluster) -> None:
    assert alter(cluster, {"min.insync.replicas": "2"}) is None
    cluster.wait(100)
    assert cluster.ensemble.data("/config/topics/orders") == b'{"version":1,"config":{"min.insync.replicas":"2"}}'
    notification = "/config/changes/config_change_0000000000"
    assert cluster.ensemble.data(notification) == b'{"version":2,"entity_path":"topics/orders"}'
    for node in cluster.nodes.values():
        assert node.of(ConfigChanged)[-1] == ConfigChanged("topics/orders", {"min.insync.replicas": "2"})
        assert all(partition.min_isr == 2 for partition in node.broker.replicas.partitions.values())


def test_password_of_another_broker_is_hidden_in_the_journal(cluster: Cluster) -> None:
    secret = "listener.name.external.plain.sasl.jaas.config"
    config = f'{{"version":1,"config":{{"{secret}":"required user_alice=\\"s3cret\\";"}}}}'
    cluster.ensemble.put("/config/brokers/1", config.encode())
    cluster.ensemble.put("/config/changes/config_change_0000000009", b'{"version":2,"entity_path":"brokers/1"}')
    cluster.wait(100)
    assert cluster.nodes[1].of(ConfigChanged)[-1] == ConfigChanged("brokers/1", {secret: "(hidden)"})


def test_null_value_removes_only_its_override(cluster: Cluster) -> None:
    alter(cluster, {"min.insync.replicas": "2", "retention.ms": "1000"})
    alter(cluster, {"min.insync.replicas": None})
    assert entry(cluster, "min.insync.replicas").source == Source.DEFAULT_CONFIG
    assert entry(cluster, "retention.ms").value == "1000"


def test_config_value_is_described_with_its_source() -> None:
    cluster = Cluster(min_insync_replicas="2").start()
    cluster.run(cluster.client.create_topic("orders", 1, 3))
    assert entry(cluster, "min.insync.replicas").synonyms == (
        ("min.insync.replicas", "2", Source.STATIC_BROKER_CONFIG),
        ("min.insync.replicas", "1", Source.DEFAULT_CONFIG),
    )
    alter(cluster, {"min.insync.replicas": "3"}, BROKER_RESOURCE, "")
    alter(cluster, {"min.insync.replicas": "1"})
    cluster.wait(100)
    described = entry(cluster, "min.insync.replicas")
    assert (described.value, described.source) == ("1", Source.DYNAMIC_TOPIC_CONFIG)
    assert [source for *_, source in described.synonyms] == [1, 3, 4, 5]
    cluster.stop_all()


def test_broker_default_applies_to_topics_without_an_override(cluster: Cluster) -> None:
    alter(cluster, {"min.insync.replicas": "2"}, BROKER_RESOURCE, "")
    cluster.wait(100)
    assert cluster.ensemble.data("/config/brokers/<default>") == b'{"version":1,"config":{"min.insync.replicas":"2"}}'
    for node in cluster.nodes.values():
        assert all(partition.min_isr == 2 for partition in node.broker.replicas.partitions.values())
    alter(cluster, {"min.insync.replicas": "3"})
    cluster.wait(100)
    assert all(p.min_isr == 3 for p in cluster.nodes[1].broker.replicas.partitions.values())
    alter(cluster, {"min.insync.replicas": None}, BROKER_RESOURCE, "")
    alter(cluster, {"min.insync.replicas": None})
    cluster.wait(100)
    assert all(p.min_isr == 1 for p in cluster.nodes[1].broker.replicas.partitions.values())


def test_cleaner_and_producer_expiry_use_changed_configs() -> None:
    cluster = Cluster(1, log_cleaner_backoff_ms="1000000", producer_id_expiration_check_interval_ms="100").start()
    broker = cluster.nodes[1].broker
    compacted = {"cleanup.policy": "compact", "segment.bytes": "100", "min.cleanable.dirty.ratio": "0"}
    cluster.run(cluster.client.create_topic("orders", 1, 1, configs=compacted))
    (log,) = [log for _, log in broker.replicas.logs.all()]
    for sequence in range(3):
        append(log, ("k", "v"), producer_id=7, producer_epoch=0, base_sequence=sequence, at_ms=SimRuntime.WALL_START_MS)
    cluster.wait(1_000)
    assert [offset for offset, *_ in read_all(log)] == [0, 1, 2] and log.producers.active()
    changes = {
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "log.cleaner.io.buffer.load.factor": "0.5",
        "log.cleaner.threads": "2",
        "producer.id.expiration.ms": "500",
    }
    assert alter(cluster, dict(changes), BROKER_RESOURCE, "") is None
    cluster.wait(500)
    assert [offset for offset, *_ in read_all(log)] == [1, 2] and not log.producers.active()

    def memory() -> tuple[int, float]:
        settings = broker.replicas.logs.settings("orders").compaction
        return settings.key_bytes, settings.key_load

    assert memory() == (2 << 20, 0.5)
    # The new value is invalid, because it was written directly to ZooKeeper. So the values of the broker's file apply.
    cluster.ensemble.put("/config/brokers/<default>", znodes.encode_config({**changes, "log.cleaner.threads": "9"}))
    cluster.ensemble.put("/config/changes/config_change_0000000009", b'{"version":2,"entity_path":"brokers/<default>"}')
    cluster.wait(500)
    assert memory() == (128 << 20, 0.9)
    cluster.stop_all()


def test_broker_config_change_cost_does_not_depend_on_topics(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker config change iterates over all logs equally often with few and many topics.

    Before the fix, each change of a throttle blocked a broker with two thousand topics for 0.9 s.
    """
    passes: list[LogDir] = []
    all_logs = LogDir.all
    assert all_logs.fget is not None
    monkeypatch.setattr(LogDir, "all", property(lambda log_dir: passes.append(log_dir) or all_logs.__get__(log_dir)))

    def passes_of(segment_bytes: str) -> int:
        passes.clear()
        assert alter(cluster, {"log.segment.bytes": segment_bytes}, BROKER_RESOURCE, "1") is None
        cluster.wait(10)
        assert {log.segment_bytes for _, log in cluster.nodes[1].broker.replicas.logs.all()} == {int(segment_bytes)}
        return len(passes)

    few = passes_of("1000")
    for number in range(9):
        cluster.run(cluster.client.create_topic(f"more-{number}", 1, 1))
    assert passes_of("2000") == few


@pytest.mark.parametrize(("name", "steps"), [("log.cleaner.threads", ["2", "4"]), ("num.io.threads", ["16", "32"])])
@pytest.mark.parametrize("broker", ["", "1"])
def test_thread_count_can_at_most_double_or_halve_in_one_change(
    cluster: Cluster, name: str, steps: Sequence[str], broker: str
) -> None:
    for count in (*steps, steps[0]):
        assert alter(cluster, {name: count}, BROKER_RESOURCE, broker) is None
        cluster.wait(100)
    refused = alter(cluster, {name: "99"}, BROKER_RESOURCE, broker)
    assert refused is not None and f"the current value {steps[0]}" in refused[1]


def test_invalid_thread_count_in_zookeeper_is_ignored(cluster: Cluster) -> None:
    cluster.ensemble.put("/config/brokers/1", znodes.encode_config({"num.io.threads": "x"}))
    cluster.ensemble.put("/config/changes/config_change_0000000009", b'{"version":2,"entity_path":"brokers/1"}')
    cluster.wait(500)
    refused = alter(cluster, {"num.io.threads": "99"}, BROKER_RESOURCE, "1")
    assert refused is not None and "the current value 8" in refused[1]


def test_change_exceeding_default_cleaner_memory_is_rejected(cluster: Cluster) -> None:
    assert alter(cluster, {"log.cleaner.dedupe.buffer.size": "2000000"}, BROKER_RESOURCE, "") is None
    cluster.wait(100)
    refused = alter(cluster, {"log.cleaner.threads": "2"}, BROKER_RESOURCE, "1")
    assert refused is not None and "at least 1MB per cleaner thread" in refused[1]


def test_removing_the_cleaner_memory_override_is_rejected() -> None:
    """A removal that leaves too little cleaner memory for two threads is rejected.

    Before the fix, it was accepted, the smaller value in the broker's file applied, and every later config change
    failed.
    """
    cluster = Cluster(1, log_cleaner_dedupe_buffer_size="2000000").start()
    assert alter(cluster, {"log.cleaner.dedupe.buffer.size": "8000000"}, BROKER_RESOURCE, "") is None
    cluster.wait(100)
    assert alter(cluster, {"log.cleaner.threads": "2"}, BROKER_RESOURCE, "1") is None
    cluster.wait(100)
    refused = alter(cluster, {"log.cleaner.dedupe.buffer.size": None}, BROKER_RESOURCE, "")
    assert refused is not None and "at least 1MB per cleaner thread" in refused[1]
    assert alter(cluster, {"log.cleaner.threads": None}, BROKER_RESOURCE, "1") is None
    cluster.wait(100)
    assert alter(cluster, {"log.cleaner.dedupe.buffer.size": None}, BROKER_RESOURCE, "") is None
    cluster.stop_all()


def test_valid_change_succeeds_despite_an_invalid_znode_value(cluster: Cluster) -> None:
    cluster.ensemble.put("/config/brokers/1", znodes.encode_config({"log.cleaner.threads": "200"}))
    cluster.ensemble.put("/config/changes/config_change_0000000009", b'{"version":2,"entity_path":"brokers/1"}')
    cluster.wait(500)
    assert alter(cluster, {"leader.replication.throttled.rate": "1000"}, BROKER_RESOURCE, "1") is None


@pytest.mark.parametrize("given", ["broker.id", "node.id"])
def test_describe_returns_broker_id_and_node_id_if_one_is_set(given: str) -> None:
    # The keys and their order are those of KafkaConfig.populateSynonyms.
    cluster = Cluster(1)
    node = cluster.nodes[1]
    keys = {key: value for key, value in node.config().originals.items() if key not in ("broker.id", "node.id")}
    node.config = lambda: config_from({**keys, given: "1"})  # type: ignore[method-assign]
    cluster.start()
    for name in ("broker.id", "node.id"):
        described = entry(cluster, name, BROKER_RESOURCE, "1")
        assert (described.value, described.source) == ("1", Source.STATIC_BROKER_CONFIG)
    cluster.stop_all()


def test_broker_describes_only_itself(cluster: Cluster) -> None:
    described = entry(cluster, "replica.lag.time.max.ms", BROKER_RESOURCE, "2")
    assert (described.value, described.source, described.read_only) == ("3000", Source.STATIC_BROKER_CONFIG, True)
    rows = [{"resource_type": BROKER_RESOURCE, "resource_name": "2", "configuration_keys": None}]
    answer = at_one(cluster, request(ApiKey.DESCRIBE_CONFIGS, 4, resources=rows))
    assert answer.results[0].error_code is ErrorCode.invalid_request
    assert "Unexpected broker id, expected 1 or empty string, but received 2" in answer.results[0].error_message


def test_describing_1000_resources_does_not_block_requests(cluster: Cluster) -> None:
    node, kinds = cluster.nodes[1], [(BROKER_RESOURCE, "1"), (TOPIC_RESOURCE, "orders")]
    rows = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": (f"key-{number}", "min.insync.replicas")}
        for number in range(500)
        for kind, name in kinds
    ]
    answers: dict[str, Any] = {}

    async def ask(name: str, rows: list[Any]) -> None:
        answers[name] = await node.broker.handle(request(ApiKey.DESCRIBE_CONFIGS, 4, resources=rows))

    node.runtime.spawn(ask("a thousand", rows), "a thousand")
    cluster.on(node, ask("one", rows[:1]))
    assert list(answers) == ["one"]
    cluster.wait(1_000)
    answer = answers["a thousand"]
    assert [(each.resource_type, each.resource_name) for each in answer.results] == 500 * kinds
    assert {config.name for each in answer.results for config in each.configs} == {"min.insync.replicas"}


def test_resource_described_twice_gets_two_equal_results(cluster: Cluster) -> None:
    row = {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configuration_keys": None}
    answer = at_one(cluster, request(ApiKey.DESCRIBE_CONFIGS, 4, resources=[row, row]))
    first, second = answer.results
    assert len(first.configs) > 200
    assert first == second


REFUSALS: list[tuple[int, str, dict[str, str | None], ErrorCode, str]] = [
    (
        TOPIC_RESOURCE,
        "orders",
        {"foo": "1"},
        ErrorCode.invalid_config,
        "Unknown topic config name: foo",
    ),
    (
        TOPIC_RESOURCE,
        "orders",
        {"min.insync.replicas": "x"},
        ErrorCode.invalid_config,
        "Invalid config value for resource ConfigResource(type=TOPIC, name='orders'): "
        "Invalid value x for configuration min.insync.replicas: Not a number of type INT",
    ),
    (
        TOPIC_RESOURCE,
        "orders",
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
        ErrorCode.invalid_config,
        "conflict topic config setting",
    ),
    (
        TOPIC_RESOURCE,
        "nothing",
        {"retention.ms": "1"},
        ErrorCode.unknown_topic_or_partition,
        "The topic 'nothing' does not exist.",
    ),
    (TOPIC_RESOURCE, "", {"retention.ms": "1"}, ErrorCode.invalid_request, "Default topic resources are not allowed."),
    (
        BROKER_RESOURCE,
        "",
        {"listeners": "PLAINTEXT://x:1"},
        ErrorCode.invalid_request,
        "Cannot update these configs at default cluster level, broker id must be specified: Set(listeners)",
    ),
    (
        BROKER_RESOURCE,
        "1",
        {"num.partitions": "5"},
        ErrorCode.invalid_request,
        "Cannot update these configs dynamically: Set(num.partitions)",
    ),
    (
        BROKER_RESOURCE,
        "1",
        {"num.io.threads": "17"},
        ErrorCode.invalid_request,
        "Dynamic thread count update validation failed for num.io.threads=17, "
        "value should not be greater than double the current value 8",
    ),
    (BROKER_RESOURCE, "", {"min.insync.replicas": "0"}, ErrorCode.invalid_request, "Value must be at least 1"),
    (BROKER_RESOURCE, "", {"log.cleaner.threads": "0"}, ErrorCode.invalid_request, "Value must be at least 1"),
    (
        BROKER_RESOURCE,
        "",
        {"log.cleaner.threads": "3"},
        ErrorCode.invalid_request,
        "Log cleaner threads cannot be increased to more than double the current value 1",
    ),
    (
        BROKER_RESOURCE,
        "1",
        {"log.cleaner.dedupe.buffer.size": "1048576"},
        ErrorCode.invalid_request,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    ),
    (8, "1", {"kafka": "INFO"}, ErrorCode.invalid_config, "Logger kafka does not exist!"),
    (16, "m", {"interval.ms": "1"}, ErrorCode.invalid_request, "but resource type is CLIENT_METRICS"),
    (32, "g", {"a": "1"}, ErrorCode.invalid_request, "Unknown resource type 32"),
]


@pytest.mark.parametrize(("kind", "name", "changes", "error", "expected_text"), REFUSALS)
def test_invalid_config_change_is_rejected_and_writes_nothing(
    cluster: Cluster, kind: int, name: str, changes: dict[str, str | None], error: ErrorCode, expected_text: str
) -> None:
    zxid = cluster.ensemble.nodes["/config/topics/orders"].mzxid
    refused = alter(cluster, changes, kind, name)
    assert refused is not None and refused[0] is error and expected_text in refused[1]
    assert cluster.ensemble.nodes["/config/topics/orders"].mzxid == zxid
    assert cluster.ensemble.nodes["/config/changes"].children == set()


def incrementally(cluster: Cluster, operation: int, value: str | None, name: str = "cleanup.policy") -> Any:
    configs = [{"name": name, "config_operation": operation, "value": value}]
    rows = [{"resource_type": TOPIC_RESOURCE, "resource_name": "orders", "configs": configs}]
    return at_one(cluster, request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=rows)).responses[0]


def test_append_and_subtract_change_list_values(cluster: Cluster) -> None:
    assert incrementally(cluster, Operation.APPEND, "compact").error_code is ErrorCode.none
    assert entry(cluster, "cleanup.policy").value == "delete,compact"
    assert incrementally(cluster, Operation.SUBTRACT, "delete").error_code is ErrorCode.none
    assert entry(cluster, "cleanup.policy").value == "compact"
    assert incrementally(cluster, Operation.APPEND, "1", "retention.ms").error_code is ErrorCode.invalid_config
    assert incrementally(cluster, Operation.SET, None).error_code is ErrorCode.invalid_request
    assert incrementally(cluster, 9, "compact").error_code is ErrorCode.invalid_request


def test_change_with_a_repeated_key_is_rejected(cluster: Cluster) -> None:
    configs = [{"name": "retention.ms", "config_operation": 0, "value": value} for value in ("1", "2")]
    rows = [{"resource_type": TOPIC_RESOURCE, "resource_name": "orders", "configs": configs}]
    answer = at_one(cluster, request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=rows))
    assert answer.responses[0].error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_all_overrides(cluster: Cluster, version: int) -> None:
    alter(cluster, {"min.insync.replicas": "2"})
    configs = [{"name": "retention.ms", "value": "1000"}]
    rows = [{"resource_type": TOPIC_RESOURCE, "resource_name": "orders", "configs": configs}]
    answer = at_one(cluster, request(ApiKey.ALTER_CONFIGS, version, resources=rows))
    assert answer.responses[0].error_code is ErrorCode.none
    assert znodes.decode_config(cluster.ensemble.data("/config/topics/orders")) == {"retention.ms": "1000"}


def test_alter_configs_with_validate_only_changes_nothing(cluster: Cluster) -> None:
    cluster.run(cluster.client.alter_configs(TOPIC_RESOURCE, "orders", {"retention.ms": "5"}, validate_only=True))
    assert znodes.decode_config(cluster.ensemble.data("/config/topics/orders")) == {}


@pytest.mark.scenario(72)
def test_config_change_without_a_controller_changes_nothing(cluster: Cluster) -> None:
    survivor = next(n for n in cluster.nodes.values() if n is not cluster.controller)
    cluster.ensemble.delete("/controller")
    rows = [{"resource_type": 2, "resource_name": "orders", "configs": [{"name": "retention.ms", "value": "5"}]}]
    session = survivor.session
    exists = session.exists
    session.exists = lambda path, watcher=None: exists("/nowhere" if path == "/controller" else path, watcher)  # type: ignore[method-assign]
    answer = cluster.on(survivor, survivor.broker.handle(request(ApiKey.ALTER_CONFIGS, 2, resources=rows)))
    assert answer.responses[0].error_code is ErrorCode.stale_controller_epoch
    assert znodes.decode_config(cluster.ensemble.data("/config/topics/orders")) == {}


def test_config_change_reaches_all_brokers_if_its_writer_dies(cluster: Cluster) -> None:
    # Kafka creates the notification in a separate transaction. If the broker dies before that, no broker reads the
    # change.
    node = cluster.nodes[1]
    session, multi = node.session, node.session.multi

    def die_after_write(ops: Any) -> Any:
        written = multi(ops)
        if any(op.path == "/config/topics/orders" for op in ops):
            cluster.scheduler.after(1_500, node.kill)
        return written

    session.multi = die_after_write  # type: ignore[method-assign]
    rows = [{"resource_type": 2, "resource_name": "orders", "configs": [{"name": "retention.ms", "value": "5"}]}]
    message = request(ApiKey.ALTER_CONFIGS, 2, resources=rows)
    node.runtime.spawn(node.broker.handle(message), "alter")
    cluster.wait(100)
    assert node.runtime.stopped
    assert znodes.decode_config(cluster.ensemble.data("/config/topics/orders")) == {"retention.ms": "5"}
    for receiver in (cluster.nodes[2], cluster.nodes[3]):
        assert receiver.of(ConfigChanged)[-1] == ConfigChanged("topics/orders", {"retention.ms": "5"})


def test_concurrent_config_changes_of_a_topic_are_both_applied(cluster: Cluster) -> None:
    session = cluster.nodes[1].session
    multi, beaten = session.multi, []

    def beaten_once(ops: Any) -> Any:
        if not beaten and any(op.path == "/config/topics/orders" for op in ops):
            beaten.append(True)
            cluster.ensemble.put("/config/topics/orders", znodes.encode_config({"retention.ms": "7"}))
        return multi(ops)

    session.multi = beaten_once  # type: ignore[method-assign]
    assert incrementally(cluster, Operation.SET, "compact").error_code is ErrorCode.none
    assert znodes.decode_config(cluster.ensemble.data("/config/topics/orders")) == {
        "retention.ms": "7",
        "cleanup.policy": "compact",
    }


def test_config_notifications_older_than_15_minutes_are_removed(cluster: Cluster) -> None:
    # In the fake ensemble, every znode has the creation time 0, so the older notification is more than 15 minutes old.
    alter(cluster, {"retention.ms": "1"})
    cluster.wait(100)
    alter(cluster, {"retention.ms": "2"})
    cluster.wait(100)
    assert cluster.ensemble.nodes["/config/changes"].children == {"config_change_0000000001"}


def test_invalid_json_in_a_config_znode_is_ignored(cluster: Cluster) -> None:
    cluster.ensemble.put("/config/topics/orders", b"not json")
    for number, data in enumerate((b"", b"{}", b'{"version":2,"entity_path":"topics/orders"}', b"\xff")):
        cluster.ensemble.put(f"/config/changes/config_change_{number:010d}", data)
    cluster.wait(200)
    cluster.ensemble.put("/config/topics/orders", znodes.encode_config({"min.insync.replicas": "two"}))
    cluster.ensemble.put("/config/changes/config_change_0000000009", znodes.encode_config_change("topics/orders"))
    cluster.wait(200)
    assert cluster.nodes[1].broker.configs.topic_overrides("orders") == {"min.insync.replicas": "two"}
    assert all(p.min_isr == 1 for p in cluster.nodes[1].broker.replicas.partitions.values())


@pytest.mark.parametrize("version", range(5))
def test_describe_configs_supports_every_version(cluster: Cluster, version: int) -> None:
    rows = [{"resource_type": 2, "resource_name": "orders", "configuration_keys": ("retention.ms",)}]
    answer = at_one(cluster, request(ApiKey.DESCRIBE_CONFIGS, version, resources=rows, include_synonyms=True))
    (row,) = answer.results[0].configs
    assert (row.name, row.value) == ("retention.ms", "604800000")
    if version == 0:
        assert row.is_default
    else:
        # log.retention.ms has no default in Kafka: its value is computed from log.retention.hours. So it has no
        # synonyms.
        assert (row.config_source, row.synonyms) == (Source.DEFAULT_CONFIG, ())


def test_every_kafka_key_is_described_and_flagged_if_read_only(cluster: Cluster) -> None:
    entries = {each.name: each for each in cluster.run(cluster.client.describe_configs(BROKER_RESOURCE, "1"))}
    visible = {name for name, key in KAFKA_KEYS.items() if not key.is_internal}
    assert visible <= entries.keys() and "unstable.api.versions.enable" not in entries
    assert not entries["num.io.threads"].read_only and entries["num.partitions"].read_only
    assert entries["log.retention.ms"].value is None and entries["log.retention.hours"].value == "168"
    assert entries["ssl.keystore.password"].is_sensitive
    assert entries["node.id"].value == "1"
    assert entries["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"


@pytest.mark.parametrize(("kind", "name"), [(2, "orders"), (4, "1")])
def test_describe_configs_returns_key_documentation_on_request(cluster: Cluster, kind: int, name: str) -> None:
    rows = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
    asked = at_one(cluster, request(ApiKey.DESCRIBE_CONFIGS, 4, resources=rows, include_documentation=True)).results[0]
    assert len(asked.configs) > 30
    assert [each.name for each in asked.configs if not each.documentation] == []
    unasked = at_one(cluster, request(ApiKey.DESCRIBE_CONFIGS, 4, resources=rows)).results[0]
    assert {each.documentation for each in unasked.configs} == {None}


def test_documentation_of_an_unused_key_states_it_has_no_effect(cluster: Cluster) -> None:
    rows = [{"resource_type": 2, "resource_name": "orders", "configuration_keys": ("flush.messages",)}]
    answer = at_one(cluster, request(ApiKey.DESCRIBE_CONFIGS, 3, resources=rows, include_documentation=True))
    assert "Without effect here: " in answer.results[0].configs[0].documentation


def test_unknown_broker_key_is_kept_and_described_as_sensitive(cluster: Cluster) -> None:
    assert alter(cluster, {"no.such": "secret"}, BROKER_RESOURCE, "1") is None
    described = entry(cluster, "no.such", BROKER_RESOURCE, "1")
    assert (described.value, described.is_sensitive, described.source) == (None, True, Source.DYNAMIC_BROKER_CONFIG)


def test_reassignment_throttles_are_stored_at_broker_and_topic(cluster: Cluster) -> None:
    rate, replicas = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
    assert alter(cluster, {rate: "1000"}, BROKER_RESOURCE, "1") is None
    assert alter(cluster, {replicas: "0:1,0:2"}) is None
    assert entry(cluster, rate, BROKER_RESOURCE, "1").value == "1000"
    assert entry(cluster, replicas).value == "0:1,0:2"
    assert alter(cluster, {rate: None}, BROKER_RESOURCE, "1") is None
    assert all(each.name != rate for each in cluster.run(cluster.client.describe_configs(BROKER_RESOURCE, "1")))


@pytest.mark.parametrize(
    ("kind", "name", "error", "expected_text"),
    [
        (8, "", ErrorCode.invalid_request, "Broker id must not be empty"),
        (4, "x", ErrorCode.invalid_request, "Broker id must be an integer, but it is: x"),
        (4, "--1", ErrorCode.invalid_request, "Broker id must be an integer, but it is: --1"),
        (16, "m", ErrorCode.invalid_request, "Config type client-metrics is only supported on KRaft clusters"),
        (32, "g", ErrorCode.invalid_request, "Unexpected resource type GROUP for resource g"),
        (2, "nothing", ErrorCode.unknown_topic_or_partition, ""),
        (2, "a b", ErrorCode.invalid_topic_exception, "Topic name is invalid"),
    ],
)
def test_invalid_describe_resource_gets_kafkas_error_message(
    cluster: Cluster, kind: int, name: str, error: ErrorCode, expected_text: str
) -> None:
    rows = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
    answer = at_one(cluster, request(ApiKey.DESCRIBE_CONFIGS, 4, resources=rows)).results[0]
    assert answer.error_code is error and not answer.configs
    assert expected_text in answer.error_message


def test_invalid_resource_named_twice_gets_two_errors(cluster: Cluster) -> None:
    rows = [{"resource_type": 2, "resource_name": "orders", "configs": []}] * 2
    answer = at_one(cluster, request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=rows))
    assert [row.error_message for row in answer.responses] == ["Each resource must appear at most once."] * 2
