"""The keys of the authorizer. Kafka passes them to the authorizer, so they are not keys of the broker itself."""

from __future__ import annotations

from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, class_of
from zabka.broker_sim.principals import KafkaPrincipal

AUTHORIZER_CLASS = "kafka.security.authorizer.AclAuthorizer"
"""Kafka's authorizer in ZooKeeper mode, which zabka's brokers reimplement."""
AUTHORIZER_KEYS = (
    ConfigKey("allow.everyone.if.no.acl.found", ConfigType.BOOLEAN, False),
    ConfigKey("authorizer.class.name", ConfigType.STRING, "", class_of(AUTHORIZER_CLASS)),
    ConfigKey("super.users", ConfigType.STRING, ""),
)
UNDEFINED_IN_KAFKA = ("allow.everyone.if.no.acl.found", "super.users")
"""Keys that Kafka's broker does not define. DescribeConfigs hides their values."""


def read_super_users(text: str) -> tuple[KafkaPrincipal, ...]:
    """Return the principals of super.users, which are separated by semicolons. Raises ConfigError."""
    if not text:
        return ()
    parts = text.split(";")
    while parts and not parts[-1]:
        parts.pop()
    users = []
    for part in parts:
        kind, colon, name = part.strip().partition(":")
        if not colon:
            raise ConfigError(
                f"Invalid value {text} for configuration super.users: "
                f"expected a string in format principalType:principalName but got {part.strip()}"
            )
        users.append(KafkaPrincipal(kind, name))
    return tuple(users)
