"""The SASL keys of listeners: which values are accepted, and why the others are rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.configs.broker_config import KafkaConfig, config_from
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.listeners import Listener
from zabka.kafka.wire.kafka_schema import ApiKey, request

LEAST = {
    "broker.id": "1",
    "zookeeper.connect": "h:1",
    "listeners": "PLAINTEXT://:1,CLIENTS://:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
}
OWN = "listener.name.clients."
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'{MODULE} required username="admin" password="x" user_alice="secret" user_bob="s\\"e;c=r et";'
PLAIN = {f"{OWN}sasl.enabled.mechanisms": "PLAIN", f"{OWN}plain.sasl.jaas.config": JAAS}
SCRAM = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}


def configured(*parts: dict[str, str]) -> KafkaConfig:
    return config_from({name: text for part in (LEAST, *parts) for name, text in part.items()})


def test_plain_users_are_those_of_the_login_module() -> None:
    config = configured(PLAIN)
    keys = config.sasl["CLIENTS"]
    assert config.listeners[1] == Listener("CLIENTS", "", 2, "SASL_PLAINTEXT") and list(config.sasl) == ["CLIENTS"]
    assert (keys.mechanisms, keys.receive_bytes_max, keys.reauth_ms) == (("PLAIN",), 524_288, {"PLAIN": 0})
    assert keys.plain_users == {"alice": "secret", "bob": 's"e;c=r et'}
    assert config.warnings == ()


def test_key_of_a_listener_or_a_mechanism_overrides_the_brokers() -> None:
    keys = {
        **PLAIN,
        f"{OWN}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "GSSAPI",
        f"{OWN}sasl.server.max.receive.size": "1000",
        "sasl.server.max.receive.size": "2000",
        "connections.max.reauth.ms": "7",
        f"{OWN}connections.max.reauth.ms": "8",
        f"{OWN}scram-sha-512.connections.max.reauth.ms": "9",
        f"{OWN}scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    found = configured(keys).sasl["CLIENTS"]
    assert found.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert found.receive_bytes_max == 1000
    assert found.reauth_ms == {"PLAIN": 8, "SCRAM-SHA-512": 9}
    assert configured(SCRAM, {"connections.max.reauth.ms": "-1"}).sasl["CLIENTS"].reauth_ms == {"SCRAM-SHA-256": 0}
    huge = configured(SCRAM, {"connections.max.reauth.ms": str(2**63 - 1)}).sasl["CLIENTS"]
    assert huge.reauth_ms == {"SCRAM-SHA-256": 10**15}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {},
            "listener CLIENTS: sasl.enabled.mechanisms: GSSAPI is not supported: brokers here have no Kerberos.",
        ),
        ({"sasl.enabled.mechanisms": "plain"}, "plain is not supported: there is no such mechanism here. Set PLAIN, "),
        ({"sasl.enabled.mechanisms": " , "}, "sasl.enabled.mechanisms contains no mechanism"),
        (
            {"sasl.enabled.mechanisms": "PLAIN"},
            f"PLAIN has no users: set {OWN}plain.sasl.jaas.config={MODULE}",
        ),
        ({**PLAIN, f"{OWN}plain.sasl.jaas.config": "x"}, f"{OWN}plain.sasl.jaas.config cannot be parsed: one of"),
        ({**PLAIN, f"{OWN}plain.sasl.jaas.config": JAAS + JAAS}, "contains 2 login modules, should be 1 module"),
        ({**PLAIN, f"{OWN}plain.sasl.jaas.config": "a.B required;"}, f"the login module of PLAIN is {MODULE}, not a.B"),
        (
            {**SCRAM, f"{OWN}scram-sha-256.sasl.jaas.config": JAAS},
            f"the login module of SCRAM-SHA-256 is {SCRAM_MODULE}, not {MODULE}",
        ),
        ({**SCRAM, "sasl.server.callback.handler.class": "a.B"}, "no classes are loaded"),
        ({**PLAIN, f"{OWN}plain.sasl.server.callback.handler.class": "a.B"}, "no classes are loaded"),
        ({**SCRAM, "principal.builder.class": "a.B"}, "only Kafka's DefaultKafkaPrincipalBuilder exists here"),
        (
            {**SCRAM, "connection.failed.authentication.delay.ms": "100", "connections.max.idle.ms": "100"},
            "connection.failed.authentication.delay.ms=100 should always be less than connections.max.idle.ms=100",
        ),
        ({**SCRAM, "connection.failed.authentication.delay.ms": "-1"}, "connection.failed.authentication.delay.ms"),
        (
            {**SCRAM, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL"},
            "listener CLIENTS: the security protocol SASL_SSL needs a key store",
        ),
    ],
)
def test_sasl_keys_that_cannot_be_used_are_rejected(keys: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        configured(keys)
    assert expected in str(wrong.value)


def test_kafkas_principal_builder_is_accepted() -> None:
    name = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    assert configured(SCRAM, {"principal.builder.class": name}).warnings == ()


def test_sasl_key_without_a_sasl_listener_logs_a_warning() -> None:
    plain = {"listeners": "PLAINTEXT://:1"}
    assert configured(plain, SCRAM).warnings == ("sasl.enabled.mechanisms has no effect here: no listener has SASL",)
    reason = "has no effect here: it applies to no listener with SASL"
    assert configured(plain, {f"{OWN}plain.sasl.jaas.config": JAAS}).warnings == (
        f"{OWN}plain.sasl.jaas.config {reason}",
    )
    assert configured(SCRAM, {"sasl.jaas.config": JAAS}).warnings == (
        "sasl.jaas.config has no effect here: set listener.name.LISTENER.plain.sasl.jaas.config",
    )


def test_client_certificates_are_required_only_by_the_listeners_key() -> None:
    keys = {
        **SCRAM,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL",
        "ssl.keystore.location": "/broker.pem",
        "ssl.truststore.location": "/trust.pem",
        "ssl.client.auth": "required",
    }
    config = configured(keys)
    assert config.tls["CLIENTS"].client_auth == "none"
    assert config.warnings == (
        "ssl.client.auth has no effect on the listener CLIENTS, as in Kafka: clients of SASL_SSL need no certificate. "
        "Set listener.name.clients.ssl.client.auth to require one",
    )
    own = configured(keys, {f"{OWN}ssl.client.auth": "requested"})
    assert own.tls["CLIENTS"].client_auth == "requested" and own.warnings == ()


def test_passwords_of_users_are_hidden_in_the_journal() -> None:
    config = configured(PLAIN)
    assert config.effective()[f"{OWN}plain.sasl.jaas.config"] == "(hidden)"
    assert "secret" not in str(config.effective()) and "secret" not in repr(config.sasl)


# ---- credentials and descriptions --------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Yield a broker with a SASL listener. Its ports are not opened."""
    made = Cluster(1)
    for node in made.nodes.values():
        node.keys |= {
            "listeners": "PLAINTEXT://broker-1:9092,SASL_PLAINTEXT://broker-1:9093",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        }
    made.start()
    yield made
    made.stop_all()


def call(cluster: Cluster, asked: Any) -> Any:
    node = cluster.nodes[1]
    return cluster.on(node, node.broker.handle(asked, "c", "PLAINTEXT"))


def test_altered_credentials_reach_the_cache(cluster: Cluster) -> None:
    def alter(**rows: object) -> ErrorCode:
        asked = {"deletions": [], "upsertions": [], **rows}
        (answer,) = call(cluster, request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, **asked)).results
        return ErrorCode(answer.error_code)

    credentials = cluster.nodes[1].broker.configs.credentials
    row = {"name": "ann b", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"salted"}
    assert alter(upsertions=[row]) is ErrorCode.none
    cluster.wait(100)
    found = credentials.credential("SCRAM-SHA-256", "ann b")
    assert found is not None and (found.salt, found.iterations) == (b"salt", 4096)
    assert alter(deletions=[{"name": "ann b", "mechanism": 1}]) is ErrorCode.none
    cluster.wait(100)
    assert credentials.credential("SCRAM-SHA-256", "ann b") is None


def test_login_configuration_is_not_described(cluster: Cluster) -> None:
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    (answer,) = call(cluster, request(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource])).results
    rows = {row.name: row for row in answer.configs}
    assert "user_alice" not in str(answer)
    assert rows["sasl.enabled.mechanisms"].value == "GSSAPI"
    assert rows["sasl.jaas.config"].is_sensitive
