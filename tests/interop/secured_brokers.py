"""Settings of brokers, ours and Apache's, that connect to each other and to clients over SASL_SSL."""

from __future__ import annotations

from pathlib import Path

from tests.ensemble.server.pem_files import Authority
from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_CLASS

PASSWORDS = {"broker": "broker-secret", "admin": "admin-secret", "shop": "shop-secret"}
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
LOGIN = 'username="broker" password="broker-secret"'
"""The part of a broker's login configuration with its own user and password."""


def authority_of(directory: Path) -> Authority:
    """Return an authority with a certificate for all brokers. Kafka reads its PEM files too."""
    authority = Authority(directory)
    authority.store("broker", "/CN=broker", "DNS:localhost,IP:127.0.0.1")
    return authority


def secured_settings(authority: Authority, mechanism: str) -> dict[str, object]:
    """Return the settings of a broker. Its only listener is SECURE; brokers connect to each other as User:broker."""
    users = "".join(f' user_{user}="{password}"' for user, password in PASSWORDS.items()) * (mechanism == "PLAIN")
    return {
        "listeners": "SECURE://127.0.0.1:{port}",
        "listener.security.protocol.map": "SECURE:SASL_SSL",
        "inter.broker.listener.name": "SECURE",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"listener.name.secure.{mechanism.lower()}.sasl.jaas.config": f"{_MODULES[mechanism]} required {LOGIN}{users};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.directory / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.ca,
        "authorizer.class.name": AUTHORIZER_CLASS,
        "super.users": "User:broker;User:admin",
    }


def client_settings(authority: Authority, mechanism: str, user: str) -> dict[str, str]:
    """Return the settings of a librdkafka client of this user, without bootstrap servers."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
        "ssl.ca.location": str(authority.ca),
    }


def java_properties(authority: Authority, mechanism: str, user: str) -> str:
    """Return the properties file of a Java client of this user (`--command-config`)."""
    login = f'{_MODULES[mechanism]} required username="{user}" password="{PASSWORDS[user]}";'
    return (
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.jaas.config={login}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority.ca}\n"
    )
