"""The listeners between brokers: which one is used, with which user, and why other values are rejected."""

from __future__ import annotations

import pytest

from zabka.broker_sim.configs.broker_config import KafkaConfig, config_from
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.kafka.sasl_login import Credentials

LEAST = {"broker.id": "1", "zookeeper.connect": "h:1"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
STORES = {"ssl.keystore.location": "/broker.pem", "ssl.truststore.location": "/ca.pem"}
NAMED = {
    "listeners": "INSIDE://:1,OUTSIDE://:2",
    "listener.security.protocol.map": "INSIDE:SASL_SSL,OUTSIDE:SSL",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.inside.scram-sha-512.sasl.jaas.config": f'{SCRAM_MODULE} required username="broker" password="x y";',
}
SASL = {
    "listeners": "SASL_PLAINTEXT://:1",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="broker" password="pw" user_broker="pw" user_alice="a";'
    ),
}
CONTROL = {
    "listeners": "PLAINTEXT://:1,CONTROL://:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:SSL",
    "control.plane.listener.name": "control",
}


def configured(*parts: dict[str, str]) -> KafkaConfig:
    return config_from({name: text for part in (LEAST, *parts) for name, text in part.items()})


def test_inter_broker_listener_is_the_named_one_or_the_protocols() -> None:
    config = configured(NAMED, STORES)
    assert (config.inter_broker_listener, config.control_plane_listener) == ("INSIDE", "")
    assert config.credentials == {"INSIDE": Credentials("SCRAM-SHA-512", "broker", "x y")}
    config = configured(SASL)
    assert config.inter_broker_listener == "SASL_PLAINTEXT"
    assert config.credentials == {"SASL_PLAINTEXT": Credentials("PLAIN", "broker", "pw")}
    config = configured({"listeners": "SSL://:1", "security.inter.broker.protocol": "SSL"}, STORES)
    assert (config.inter_broker_listener, config.credentials) == ("SSL", {})
    assert (configured().inter_broker_listener, configured().credentials) == ("PLAINTEXT", {})


def test_control_plane_listener_is_separate() -> None:
    config = configured(CONTROL, STORES)
    assert (config.inter_broker_listener, config.control_plane_listener) == ("PLAINTEXT", "CONTROL")


def test_broker_password_is_never_shown() -> None:
    config = configured(NAMED, STORES)
    assert "x y" not in repr(config.credentials) + str(config.effective())


def test_certificate_names_are_checked_unless_disabled() -> None:
    assert configured(NAMED, STORES).tls["INSIDE"].checks_names
    off = {"listener.name.inside.ssl.endpoint.identification.algorithm": ""}
    tls = configured(NAMED, STORES, off).tls
    assert (tls["INSIDE"].checks_names, tls["OUTSIDE"].checks_names) == (False, True)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {**NAMED, **STORES, "security.inter.broker.protocol": "SSL"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        (
            {**NAMED, **STORES, "inter.broker.listener.name": "BESIDE"},
            "Listener with name BESIDE defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map.",
        ),
        (
            {"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            "based on currently configured listeners are SASL_PLAINTEXT",
        ),
        ({"security.inter.broker.protocol": "TLS"}, "one of: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (
            {"control.plane.listener.name": "SSL"},
            "control.plane.listener.name must be a listener name defined in advertised.listeners.",
        ),
        (
            {"control.plane.listener.name": "PLAINTEXT"},
            "control.plane.listener.name, when defined, should have a different value from the inter broker listener "
            "name. Currently they both have the value PLAINTEXT",
        ),
        (
            SASL | dict.fromkeys(("sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"), "OAUTHBEARER"),
            "listener SASL_PLAINTEXT: login with OAUTHBEARER and "
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config: No principal name in JWT claim: sub. Set the "
            "option unsecuredLoginStringClaim_sub",
        ),
        (
            {**SASL, "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used for "
            "inter-broker communication",
        ),
        (
            {**NAMED, **STORES, "listener.name.inside.scram-sha-512.sasl.jaas.config": ""},
            "listener INSIDE: brokers have no user for SCRAM-SHA-512 with which they connect to each other: "
            "set listener.name.inside.scram-sha-512.sasl.jaas.config=",
        ),
        (
            {**SASL, "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_a="b";'},
            "listener SASL_PLAINTEXT: brokers have no user for PLAIN with which they connect to each other",
        ),
        (
            {**NAMED, "ssl.keystore.location": "/broker.pem"},
            "listener INSIDE: brokers need a trust store to verify each other's certificates",
        ),
        ({**NAMED, **STORES, "ssl.endpoint.identification.algorithm": "ldap"}, "String must be one of: https, HTTPS, "),
    ],
)  # fmt: skip
def test_listener_that_brokers_cannot_use_is_rejected(keys: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        configured(keys)
    assert expected in str(wrong.value)
