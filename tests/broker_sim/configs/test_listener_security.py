"""Listeners with security protocols, and the TLS keys: which values are accepted, and why the others are rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.configs.broker_config import KafkaConfig, config_from
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.listeners import Listener
from zabka.broker_sim.configs.tls_keys import StoreKeys, TlsKeys
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.kafka.zk.znodes import BrokerEndpoint, decode_broker, encode_broker

LEAST = {"broker.id": "1", "zookeeper.connect": "h:1"}
TWO = {
    "listeners": "INSIDE://:1,OUTSIDE://:2",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL",
    "inter.broker.listener.name": "INSIDE",
}
PEM = {"ssl.keystore.location": "/keys/broker.pem"}


def configured(*parts: dict[str, str]) -> KafkaConfig:
    return config_from({name: text for part in (LEAST, *parts) for name, text in part.items()})


def test_listener_protocols_are_taken_from_the_protocol_map() -> None:
    config = configured(TWO, PEM, {"advertised.listeners": "OUTSIDE://out:2,INSIDE://in:1"})
    assert config.listeners == (Listener("INSIDE", "", 1), Listener("OUTSIDE", "", 2, "SSL"))
    assert config.advertised_listeners == (Listener("OUTSIDE", "out", 2, "SSL"), Listener("INSIDE", "in", 1))
    unnamed = configured(PEM, {"listeners": "PLAINTEXT://:1,SSL://:2"})
    assert [listener.protocol for listener in unnamed.listeners] == ["PLAINTEXT", "SSL"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"listeners": "OTHER://:1"}, "No security protocol defined for listener OTHER"),
        ({"listener.security.protocol.map": "PLAINTEXT:TLS"}, "PLAINTEXT:TLS is not a listener's name and"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "PLAINTEXT is not a listener's name and"),
    ],
)
def test_listener_that_cannot_be_served_is_rejected(keys: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        configured(keys)
    assert expected in str(wrong.value)


JKS = "keytool -importkeystore -srckeystore /a.jks -srcstoretype JKS -destkeystore /a.p12 -deststoretype PKCS12"
INLINE = {"keystore.type": "PEM", "keystore.key": "k", "keystore.certificate.chain": "c"}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "the security protocol SSL needs a key store"),
        ({"keystore.location": "/a.jks"}, JKS),
        ({"keystore.location": "/a.pem", "keystore.type": "JKS"}, "JKS stores are not supported"),
        ({"keystore.location": "/a"}, "ssl.keystore.type is not set, and JKS, Kafka's default, is not supported"),
        ({"keystore.location": "/a", "keystore.type": "DKS"}, "ssl.keystore.type=DKS is not supported"),
        ({"keystore.location": "/a.pem", "truststore.location": "/a.jks"}, "ssl.truststore.location=/a.jks: JKS"),
        ({"keystore.location": "/a.pem", "keystore.password": "p"}, "password cannot be specified with PEM format"),
        ({"keystore.location": "/a.p12"}, "key store password is not specified"),
        ({"keystore.location": "/a.p12", "keystore.password": "p", "key.password": "q"}, "with two passwords"),
        ({"keystore.password": "p"}, "key store is not specified, but key store password is specified"),
        ({"keystore.key": "k", "keystore.certificate.chain": "c"}, "only for PEM, but key store type is JKS."),
        ({"keystore.type": "PEM", "keystore.key": "k"}, "certificate chain is not specified"),
        ({"keystore.certificate.chain": "c"}, "private key is not specified"),
        ({**INLINE, "keystore.location": "/a.pem"}, "Both SSL key store location and separate private key"),
        ({**INLINE, "keystore.password": "p"}, "only key password may be specified"),
        ({**INLINE, "truststore.certificates": "c"}, "only for PEM, but trust store type is JKS."),
        ({**INLINE, "truststore.password": "p"}, "trust store password is specified"),
        ({**INLINE, "truststore.location": "/t.pem", "truststore.password": "p"}, "trust store password cannot be"),
        ({**INLINE, "client.auth": "required"}, "ssl.client.auth=required needs a trust store"),
        ({**INLINE, "client.auth": "requested"}, "ssl.client.auth=requested needs a trust store"),
        ({**INLINE, "client.auth": "need"}, "String must be one of: required, requested, none"),
        ({**INLINE, "enabled.protocols": "TLSv1.1"}, "String must be one of: TLSv1.2, TLSv1.3"),
        ({**INLINE, "enabled.protocols": ""}, "ssl.enabled.protocols contains no protocol"),
        ({**INLINE, "engine.factory.class": "a.B"}, "OpenSSL is the only TLS engine here"),
        ({**INLINE, "principal.mapping.rules": "RULE:.*/"}, "Invalid rule: `RULE:.*/`"),
        ({**INLINE, "provider": "BCFIPS"}, "OpenSSL is the only provider here"),
        ({**INLINE, "allow.dn.changes": "perhaps"}, "Expected value to be either true or false"),
    ],
)
def test_tls_keys_that_cannot_be_used_are_rejected(keys: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        configured(TWO, {f"ssl.{key}": text for key, text in keys.items()})
    assert expected in str(wrong.value)


def test_listener_key_overrides_the_broker_wide_key() -> None:
    keys = {
        "listeners": "PLAINTEXT://:1,ONE://:2,TWO://:3",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ONE:SSL,TWO:SSL",
        "listener.name.two.ssl.keystore.location": "/two.p12",
        "listener.name.two.ssl.keystore.password": "p",
        "listener.name.two.ssl.client.auth": "required",
        "listener.name.two.ssl.truststore.location": "/trust.pem",
        "listener.name.two.ssl.enabled.protocols": "TLSv1.3",
        "ssl.cipher.suites": "A,B",
    }
    both, suites = ("TLSv1.2", "TLSv1.3"), ("A", "B")
    trusted = StoreKeys("PEM", "/trust.pem", "")
    assert configured(keys, PEM).tls == {
        "ONE": TlsKeys("ONE", StoreKeys("PEM", PEM["ssl.keystore.location"], ""), None, "none", both, suites),
        "TWO": TlsKeys("TWO", StoreKeys("PKCS12", "/two.p12", "p"), trusted, "required", ("TLSv1.3",), suites),
    }


def test_tls_key_without_a_tls_listener_logs_a_warning() -> None:
    own = {"listener.name.inside.ssl.client.auth": "required"}
    reason = "has no effect here: it applies to no listener with the security protocol SSL or SASL_SSL"
    assert configured(PEM).warnings == (f"ssl.keystore.location {reason}",)
    assert configured(TWO, PEM, own).warnings == (f"listener.name.inside.ssl.client.auth {reason}",)
    assert configured(TWO, PEM).warnings == ()


def test_passwords_are_hidden_in_the_journal() -> None:
    secret = {"ssl.key.password": "sesame", "listener.name.outside.ssl.key.password": "sesame"}
    config = configured(TWO, PEM, secret)
    assert config.tls["OUTSIDE"].own.password == "sesame"
    assert "sesame" not in str(config.effective()) and "sesame" not in repr(config.tls)
    assert config.effective()["ssl.key.password"] == "(hidden)"


# ---- registration and dynamic changes ----------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Yield a broker with a TLS listener. Its ports are not opened."""
    made = Cluster(1)
    for node in made.nodes.values():
        node.keys |= {
            "listeners": "PLAINTEXT://broker-1:9092,SSL://broker-1:9093",
            "advertised.listeners": "SSL://outside:9093,PLAINTEXT://broker-1:9092",
            **PEM,
        }
    made.start()
    yield made
    made.stop_all()


def test_broker_registers_every_listener_with_its_protocol(cluster: Cluster) -> None:
    info = cluster.nodes[1].broker._broker_info()
    assert info.endpoints == (
        BrokerEndpoint("SSL", "outside", 9093, "SSL"),
        BrokerEndpoint("PLAINTEXT", "broker-1", 9092),
    )
    written = encode_broker(info, 1)
    assert b'"listener_security_protocol_map":{"SSL":"SSL","PLAINTEXT":"PLAINTEXT"}' in written
    assert b'"host":"broker-1","port":9092' in written
    assert decode_broker(1, written) == info


def test_metadata_returns_the_address_of_each_protocol(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    asked: Any = request(ApiKey.METADATA, 12, topics=[])
    for listener, address in (("SSL", ("outside", 9093)), ("PLAINTEXT", ("broker-1", 9092))):
        answer = cluster.on(node, node.broker.handle(asked, "c", listener))
        assert [(broker.host, broker.port) for broker in answer.brokers] == [address]


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.ssl.ssl.client.auth",
        "sasl.jaas.config",
        "listener.name.ssl.plain.sasl.jaas.config",
        "listener.name.ssl.sasl.enabled.mechanisms",
    ],
)
def test_key_that_is_read_at_the_start_cannot_change(cluster: Cluster, name: str) -> None:
    row = {"resource_type": 4, "resource_name": "1", "configs": [{"name": name, "config_operation": 0, "value": "x"}]}
    node = cluster.nodes[1]
    asked: Any = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[row], validate_only=False)
    (answer,) = cluster.on(node, node.broker.handle(asked, "c", "PLAINTEXT")).responses
    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_message.startswith(f"Cannot update these configs dynamically: Set({name}). Kafka would use")
