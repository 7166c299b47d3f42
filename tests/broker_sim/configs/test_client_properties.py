"""The settings of Kafka clients (`--command-config`), and the TLS keys of a broker's sessions with the ensemble."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.broker_sim.client_security import ClientConfig, read_client_config
from zabka.broker_sim.configs.broker_config import KafkaConfig, parse_config
from zabka.broker_sim.configs.client_properties import parse_client_properties
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.ensemble_tls import EnsembleTls
from zabka.broker_sim.configs.tls_keys import StoreKeys
from zabka.kafka.channel_security import PLAIN_TEXT
from zabka.kafka.ports import Endpoint
from zabka.kafka.sasl_login import Credentials

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECURED = f"""\
bootstrap.servers = b:1,c:2
client.id = shop
security.protocol = SASL_SSL
sasl.mechanism = SCRAM-SHA-512
sasl.jaas.config = {SCRAM} required \\
  username="alice" password="s=e;c";
ssl.truststore.type = PEM
ssl.truststore.location = /ca.pem
"""
BROKER = "broker.id=1\nzookeeper.connect=h:1\n"


def test_client_settings_have_a_user_and_a_trust_store() -> None:
    found = parse_client_properties(SECURED)
    assert (found.bootstrap, found.client_id, found.is_encrypted, found.checks_names) == ("b:1,c:2", "shop", True, True)
    assert found.credentials == Credentials("SCRAM-SHA-512", "alice", "s=e;c")
    assert (found.own, found.trusted) == (None, StoreKeys("PEM", "/ca.pem", ""))
    assert "s=e;c" not in repr(found)


def test_client_settings_without_security_are_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("acks=all\nssl.truststore.location=\nsasl.mechanism=GSSAPI\nssl.protocol=TLSv1.3\n")
    assert read_client_config(path) == ClientConfig(PLAIN_TEXT)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("security.protocol=", "Invalid value  for configuration security.protocol"),
        ("security.protocol=PLAINTEXT", "ssl.truststore.location, sasl.jaas.config has no effect with .*=PLAINTEXT"),
        ("security.protocol=SSL", "^sasl.jaas.config has no effect with security.protocol=SSL"),
        ("security.protocol=SASL_PLAINTEXT", "^ssl.truststore.location has no effect with .*=SASL_PLAINTEXT"),
        ("security.protocol=TLS", "Invalid value TLS for configuration security.protocol"),
        ("sasl.mechanism=GSSAPI", "sasl.mechanism=GSSAPI is not supported"),
        ("sasl.mechanism=PLAIN", "the login module of PLAIN is"),
        (f"sasl.jaas.config={SCRAM} required;", "sasl.jaas.config has no user"),
        ("ssl.truststore.type=JKS", "JKS stores are not supported"),
        ("ssl.engine.factory.class=a.B", "ssl.engine.factory.class is not supported by zabka's clients"),
        ("sasl.client.callback.handler.class=a.B", "sasl.client.callback.handler.class is not supported"),
    ],
)
def test_security_setting_without_effect_is_rejected(change: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_client_properties(SECURED + change)


def test_client_settings_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_client_config(tmp_path / "missing.properties")
    path = tmp_path / "client.properties"
    path.write_text(SECURED)
    with pytest.raises(ConfigError, match=f"{path}: "):
        read_client_config(path)


def test_client_login_without_tls_has_no_context(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(SECURED + "security.protocol=SASL_PLAINTEXT\nssl.truststore.location=\n")
    security, to = read_client_config(path).security, Endpoint(1, "b", 1)
    assert security.context(to) is None and security.login(to) is not None


# ---- a broker's sessions with the ensemble ---------------------------------------------------------------------------


def ensemble_tls(lines: str) -> EnsembleTls | None:
    config: KafkaConfig = parse_config(BROKER + lines)
    assert config.warnings == ()
    return config.ensemble_tls


def test_ensemble_sessions_use_tls_only_if_enabled() -> None:
    store = "zookeeper.ssl.truststore.location=/ca.pem\n"
    assert ensemble_tls(store) is None
    enabled = ensemble_tls(f"{store}zookeeper.ssl.client.enable=true\n")
    # Kafka's defaults: TLS 1.2, and the name of the server is verified.
    assert enabled == EnsembleTls(StoreKeys("PEM", "/ca.pem", ""), None, True, ("TLSv1.2",), ())


def test_ensemble_tls_keys_select_stores_versions_and_names() -> None:
    found = ensemble_tls("""\
zookeeper.ssl.client.enable=true
zookeeper.ssl.keystore.location=/key.p12
zookeeper.ssl.keystore.password=secret
zookeeper.ssl.enabled.protocols=TLSv1.3,TLSv1.2
zookeeper.ssl.endpoint.identification.algorithm=
zookeeper.ssl.cipher.suites=TLS_AES_256_GCM_SHA384
""")
    suites, versions = ("TLS_AES_256_GCM_SHA384",), ("TLSv1.3", "TLSv1.2")
    assert found == EnsembleTls(None, StoreKeys("PKCS12", "/key.p12", "secret"), False, versions, suites)
    assert "secret" not in repr(found)


@pytest.mark.parametrize("line", ["zookeeper.ssl.protocol=SSLv3", "zookeeper.ssl.keystore.location=/key.jks"])
def test_unsupported_ensemble_tls_value_is_rejected(line: str) -> None:
    with pytest.raises(ConfigError, match=line.partition("=")[0]):
        parse_config(f"{BROKER}zookeeper.ssl.client.enable=true\n{line}\n")
