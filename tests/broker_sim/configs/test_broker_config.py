from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zabka.broker_sim.broker_process import main as run_broker
from zabka.broker_sim.configs.authorizer_keys import read_super_users
from zabka.broker_sim.configs.broker_config import BROKER_KEYS, parse_config
from zabka.broker_sim.configs.config_def import ConfigError, ConfigType, render
from zabka.broker_sim.configs.listeners import Listener
from zabka.broker_sim.configs.replica_config import partition_config, replica_config
from zabka.broker_sim.configs.topic_config import TOPIC_KEYS, effective_topic_config, validate_topic_config
from zabka.broker_sim.principals import KafkaPrincipal

LEAST = "broker.id=1\nzookeeper.connect=127.0.0.1:2181\n"


def test_unset_keys_have_kafkas_defaults() -> None:
    config = parse_config(LEAST)
    assert config.session_timeout_ms == 18_000
    assert config.replica_lag_time_max_ms == 30_000
    assert config.min_insync_replicas == 1
    assert config.unclean_leader_election_enable is False
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.log_dir == "/tmp/kafka-logs"
    assert config.number("controlled.shutdown.max.retries") == 3
    assert config.number("log.retention.ms") == 604_800_000
    assert config.node_name == "broker-1"
    assert config.warnings == ()


def test_every_default_value_is_valid() -> None:
    for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()):
        if key.default != "":
            assert key.parse(render(key.default)) == key.default, key.name


def test_unknown_key_and_key_without_effect_each_log_a_warning() -> None:
    config = parse_config(LEAST + "no.such.key=1\nnum.io.threads=8\n")
    assert config.warnings == (
        "unknown configuration no.such.key is ignored",
        "num.io.threads has no effect here: a broker here is one process with one thread for requests",
    )


def test_unused_topic_default_logs_a_warning() -> None:
    assert parse_config(LEAST + "log.flush.interval.messages=1\n").warnings == (
        "log.flush.interval.messages has no effect here: logs and their indexes are kept in another way",
    )


@pytest.mark.parametrize(
    "line",
    [
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "zookeeper.ssl.crl.enable=true",
        "zookeeper.set.acl=true",
        "create.topic.policy.class.name=com.example.Policy",
        "group.coordinator.rebalance.protocols=classic,consumer",
        "process.roles=broker",
        "remote.log.storage.system.enable=true",
        "replica.selector.class=com.example.Selector",
    ],
)
def test_value_requiring_a_missing_feature_is_rejected(line: str) -> None:
    name, _, value = line.partition("=")
    with pytest.raises(ConfigError, match=re.escape(f"Invalid value {value} for configuration {name}: ")):
        parse_config(LEAST + line)


def test_authorizer_reads_super_users_separated_by_semicolons() -> None:
    config = parse_config(
        LEAST + "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n"
        "super.users=User:admin; User:CN=broker,O=x:y;\nallow.everyone.if.no.acl.found=true\n"
    )
    assert config.warnings == ()
    assert config.flag("allow.everyone.if.no.acl.found") is True
    users = read_super_users(config.text("super.users"))
    assert users == (KafkaPrincipal("User", "admin"), KafkaPrincipal("User", "CN=broker,O=x:y"))
    assert read_super_users("") == ()


@pytest.mark.parametrize("text", ["admin", "User:a;;User:b", "User:a, User:b;c"])
def test_super_user_without_a_type_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a string in format principalType:principalName"):
        parse_config(LEAST + f"super.users={text}\n")


def test_value_that_disables_a_missing_feature_is_accepted() -> None:
    config = parse_config(
        LEAST + "authorizer.class.name=\nzookeeper.set.acl=false\nsecurity.inter.broker.protocol=PLAINTEXT\n"
        "replica.selector.class=org.apache.kafka.common.replica.LeaderSelector\n"
    )
    assert config.warnings == ()


@pytest.mark.parametrize("name", ["remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"])
def test_topic_with_remote_storage_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match=r"Tiered Storage|under Zookeeper's mode"):
        validate_topic_config({name: "true"})
    assert validate_topic_config({name: "false"}) == {name: False}


@pytest.mark.parametrize(
    ("line", "expected_text"),
    [
        ("replica.lag.time.max.ms=soon", "soon for configuration replica.lag.time.max.ms: Not a number of type LONG"),
        ("broker.id=2147483648", "Not a number of type INT"),
        ("broker.id=1001", "broker.id must be equal or less than reserved.broker.max.id (1000)"),
        ("broker.id=-2", "Value must be at least -1"),
        ("unclean.leader.election.enable=maybe", "Expected value to be either true or false"),
        ("min.insync.replicas=0", "Value must be at least 1"),
        ("listeners=nonsense", "Unable to parse nonsense to a broker endpoint"),
        ("listeners=PLAINTEXT://h:99999", "Unable to parse"),
        ("listeners=A://h:1,A://h:2", "Each listener must have a different name"),
        ("listeners=SSL://h:1", "inter.broker.listener.name must be a listener name defined in"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:1", "nonroutable meta-address"),
        ("advertised.listeners=OTHER://h:1", "no listener is named OTHER"),
        ("zookeeper.connect=", "Missing required configuration"),
        ("zookeeper.connect=h:21x1", "Invalid value h:21x1 for configuration zookeeper.connect"),
        ("zabka.journal.level=loud", "String must be one of: normal, full"),
    ],
)  # fmt: skip
def test_invalid_value_raises_config_error_with_the_reason(line: str, expected_text: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse_config(LEAST + line + "\n")
    assert expected_text in str(wrong.value)


@pytest.mark.parametrize("missing", ["broker.id", "zookeeper.connect"])
def test_missing_required_key_is_reported(missing: str) -> None:
    text = "".join(line for line in LEAST.splitlines(keepends=True) if not line.startswith(missing))
    with pytest.raises(ConfigError, match=f'Missing required configuration "{missing}"'):
        parse_config(text + "broker.id.generation.enable=false\n")


def test_broker_without_configured_id_accepts_a_generated_id() -> None:
    config = parse_config("zookeeper.connect=127.0.0.1:2181\n")
    assert config.broker_id == -1
    given = config.identified(1001)
    assert (given.broker_id, given.node_name, given.number("broker.id")) == (1001, "broker-1001", 1001)


def test_cleaner_memory_is_at_least_one_megabyte_per_thread() -> None:
    for line in ("log.cleaner.dedupe.buffer.size=1048576\n", "log.cleaner.threads=128\n"):
        with pytest.raises(ConfigError, match=r"^log.cleaner.dedupe.buffer.size must be at least 1MB per clea"):
            parse_config(LEAST + line)
    config = replica_config(parse_config(LEAST + "log.cleaner.threads=4\nlog.cleaner.io.buffer.load.factor=0.5\n"))
    settings = partition_config(config, {}).compaction
    assert (settings.key_bytes, settings.key_load) == (32 << 20, 0.5)


def test_node_id_key_is_a_synonym_of_broker_id() -> None:
    assert parse_config("zookeeper.connect=127.0.0.1:2181\nnode.id=7\n").broker_id == 7
    assert parse_config(LEAST + "node.id=1\n").broker_id == 1
    with pytest.raises(ConfigError, match=r"You must set `node.id` to the same value as `broker.id`"):
        parse_config(LEAST + "node.id=2\n")


def test_listeners_are_parsed_to_names_addresses_and_protocols() -> None:
    config = parse_config(
        LEAST
        + "listeners=INSIDE://127.0.0.1:19092,OUTSIDE://[::1]:0\n"
        + "advertised.listeners=INSIDE://inside:19092,OUTSIDE://outside:29092\n"
        + "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT\n"
        + "inter.broker.listener.name=INSIDE\n"
    )
    assert config.listeners == (Listener("INSIDE", "127.0.0.1", 19092), Listener("OUTSIDE", "::1", 0))
    assert [str(each) for each in config.advertised_listeners] == ["INSIDE://inside:19092", "OUTSIDE://outside:29092"]
    assert str(config.listeners[1]) == "OUTSIDE://[::1]:0"


def test_inter_broker_listener_must_be_one_of_the_listeners() -> None:
    listeners = (
        "listeners=OUTSIDE://:1,INSIDE://:2\n"
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,BESIDE:PLAINTEXT\n"
    )
    named = parse_config(f"{LEAST}{listeners}inter.broker.listener.name=inside\n")
    assert named.inter_broker_listener == "INSIDE"
    assert parse_config(LEAST).inter_broker_listener == "PLAINTEXT"
    with pytest.raises(ConfigError, match="currently configured listeners are OUTSIDE,INSIDE"):
        parse_config(f"{LEAST}{listeners}inter.broker.listener.name=BESIDE\n")


def test_log_dir_key_is_used_if_log_dirs_is_not_set() -> None:
    assert parse_config(LEAST + "log.dir=/a\n").log_dir == "/a"
    config = parse_config(LEAST + "log.dir=/a\nlog.dirs=/b,/c\n")
    assert (config.log_dir, config.log_dirs) == ("/b", ("/b", "/c"))


def test_retention_hours_are_converted_to_milliseconds() -> None:
    assert parse_config(LEAST + "log.retention.hours=2\n").number("log.retention.ms") == 7_200_000
    assert parse_config(LEAST + "log.retention.hours=2\nlog.retention.ms=5\n").number("log.retention.ms") == 5


def test_retention_key_with_the_finest_unit_takes_precedence() -> None:
    hours, minutes = "log.retention.hours=2\n", "log.retention.minutes=3\n"
    assert parse_config(LEAST + minutes + hours).number("log.retention.ms") == 180_000
    assert parse_config(LEAST + minutes + "log.retention.ms=5\n").number("log.retention.ms") == 5
    assert parse_config(LEAST + "log.roll.hours=2\n").number("log.roll.ms") == 7_200_000
    assert parse_config(LEAST + "log.roll.hours=2\nlog.roll.ms=5\n").number("log.roll.ms") == 5


@given(st.sampled_from(sorted(BROKER_KEYS)), st.text(max_size=20))
def test_any_config_value_is_accepted_or_rejected_with_a_reason(name: str, text: str) -> None:
    try:
        BROKER_KEYS[name].parse(text)
    except ConfigError as wrong:
        assert name in str(wrong)


def test_topic_override_is_used_unless_its_value_is_invalid() -> None:
    broker = {"min.insync.replicas": 2, "log.retention.ms": 5}
    values = effective_topic_config({"min.insync.replicas": "3", "retention.ms": "soon"}, broker)
    assert (values["min.insync.replicas"], values["retention.ms"]) == (3, 5)
    assert values["segment.bytes"] == 1_073_741_824


def test_throttled_replica_lists_are_checked_for_kafkas_format() -> None:
    for good in ("", "*", "0:1,12:3"):
        validate_topic_config({"leader.replication.throttled.replicas": good})
    for bad in ("1", "a:b", "1:2,,x"):
        with pytest.raises(ConfigError, match="must be the literal"):
            validate_topic_config({"leader.replication.throttled.replicas": bad})


def test_config_types_equal_those_in_describe_configs() -> None:
    assert [kind.value for kind in ConfigType] == list(range(1, 10))


def test_server_properties_are_parsed_as_in_java() -> None:
    config = parse_config("broker.id 7\nzookeeper.connect:h\\:2181\nlog.\\u0064irs=/a\\ b\\")
    assert (config.broker_id, config.log_dir) == (7, "/a b")
    with pytest.raises(ConfigError, match="is not a Java properties file"):
        parse_config("broker.id=1\nzookeeper.connect=h:1\nlog.dirs=C:\\users")


def test_invalid_escape_in_properties_fails_startup_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"broker.id=1\nlog.dirs=C:\\users\n")
    assert run_broker(path) == 1
    assert capsys.readouterr().err.splitlines() == [
        "zabka broker: server.properties is not a Java properties file: "
        f"\\users is not \\u and four hexadecimal digits (in {path})"
    ]
