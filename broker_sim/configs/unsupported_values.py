"""Keys for features that zabka's brokers lack. A broker starts only with values that disable these features.

If a broker only warned about encryption or a policy, the cluster would be open although its owner
assumes that it is protected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError


class Supported(NamedTuple):
    """The accepted values of a key for a missing feature."""

    values: tuple[str, ...]
    """The values that are accepted, in lower case."""
    sentence: str
    """The purpose of the key in Kafka."""
    reason: str
    """The reason why all other values are rejected."""


SUPPORTED_OF_BROKERS: Mapping[str, Supported] = {
    "alter.config.policy.class.name": Supported(
        ("",), "The class that may refuse a change of configuration.", "no policy is asked here"
    ),
    "client.quota.callback.class": Supported(
        ("",), "The class that selects the quota of a client.", "only the quotas in ZooKeeper apply"
    ),
    "create.topic.policy.class.name": Supported(
        ("",), "The class that may refuse a new topic.", "no policy is asked here"
    ),
    "group.coordinator.rebalance.protocols": Supported(
        ("classic",), "The protocols that groups may use.", "only the classic protocol is supported with ZooKeeper"
    ),
    "principal.builder.class": Supported(
        ("", "org.apache.kafka.common.security.authenticator.defaultkafkaprincipalbuilder"),
        "The class that makes a principal out of an authenticated connection.",
        "only Kafka's DefaultKafkaPrincipalBuilder exists here: no classes are loaded",
    ),
    "process.roles": Supported(
        ("",), "The roles of a process without ZooKeeper.", "brokers here run in ZooKeeper mode"
    ),
    "remote.log.storage.system.enable": Supported(
        ("false",), "Whether logs are tiered: older segments stored elsewhere.", "logs are not tiered here"
    ),
    "security.providers": Supported(
        ("",), "Java's providers of security algorithms.", "OpenSSL provides them here, not Java"
    ),
    "ssl.engine.factory.class": Supported(
        ("",), "The class that makes TLS engines.", "OpenSSL is the only TLS engine here"
    ),
    "ssl.keymanager.algorithm": Supported(
        ("sunx509", ""), "The algorithm of Java's key manager.", "OpenSSL selects the certificate here, not Java"
    ),
    "ssl.provider": Supported(("",), "Java's provider of TLS.", "OpenSSL is the only provider here"),
    "ssl.secure.random.implementation": Supported(
        ("",), "Java's source of random numbers for TLS.", "OpenSSL is the source here"
    ),
    "ssl.trustmanager.algorithm": Supported(
        ("pkix", ""), "The algorithm of Java's trust manager.", "OpenSSL verifies certificates here, not Java"
    ),
    "zookeeper.metadata.migration.enable": Supported(
        ("false",), "Whether the cluster is on its way off ZooKeeper.", "brokers here run in ZooKeeper mode"
    ),
    "zookeeper.set.acl": Supported(
        ("false",), "Whether Kafka's znodes may be changed by brokers alone.", "znodes are made open to everybody here"
    ),
    "zookeeper.ssl.crl.enable": Supported(
        ("false",), "Whether lists of revoked certificates are looked into.", "no list is fetched here"
    ),
    "zookeeper.ssl.ocsp.enable": Supported(
        ("false",), "Whether a responder is asked about certificates.", "no responder is asked here"
    ),
}
"""Broker keys for missing features, with the accepted values."""
SUPPORTED_OF_TOPICS: Mapping[str, Supported] = {
    "remote.log.copy.disable": Supported(
        ("false",),
        "Stops the copying of a tiered topic's segments.",
        "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode.",
    ),
    "remote.log.delete.on.disable": Supported(
        ("false",),
        "Removes what is stored elsewhere when a topic stops being tiered.",
        "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode.",
    ),
    "remote.storage.enable": Supported(
        ("false",),
        "Stores a topic's older segments elsewhere.",
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
    ),
}
"""Topic keys for missing features, with the accepted values and the reason for rejecting other values.

The reasons are Kafka's own messages in ZooKeeper mode without tiered storage (LogConfig).
"""


def check_broker_value(name: str, text: str) -> None:
    """Raise ConfigError for a value that requests a missing feature."""
    supported = SUPPORTED_OF_BROKERS.get(name)
    if supported is not None and text.strip().lower() not in supported.values:
        raise ConfigError(f"Invalid value {text.strip()} for configuration {name}: {supported.reason}")


def check_topic_value(name: str, text: str) -> None:
    """Raise ConfigError for a topic key's value that requests a missing feature."""
    supported = SUPPORTED_OF_TOPICS.get(name)
    if supported is not None and text.strip().lower() not in supported.values:
        raise ConfigError(supported.reason)
