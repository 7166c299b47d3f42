"""A secured listener of a live cluster: the brokers' settings, the users, and the settings of client libraries.

Each broker has two listeners: EXTERNAL with the security protocol, for clients and other brokers, and INTERNAL in plain
text on the loopback interface, for the fixture's own requests. Brokers connect to each other as the user `broker`.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from zabka.testing.cluster import ClientLibrary, ClusterFailed
from zabka.testing.live.certificates import AUTHORITY, BROKER, write_certificates

SecurityProtocol = Literal["SSL", "SASL_SSL", "SASL_PLAINTEXT"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
USERS: Mapping[str, str] = {"alice": "alice-secret", "bob": "bob-secret"}
"""The users of a secured cluster, and their passwords."""
BROKER_USER, _BROKER_PASSWORD = "broker", "broker-secret"
"""The user with which brokers connect to each other."""
_SALT_BYTES = 16
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Security:
    """Security of a cluster whose certificates are in `directory`."""

    def __init__(self, protocol: SecurityProtocol, directory: Path) -> None:
        """Write the certificates, if the protocol needs them.

        Raises ClusterFailed for an unknown protocol, and Lacking if the extra `tls` is not installed.
        """
        if protocol not in get_args(SecurityProtocol):
            raise ClusterFailed(f"secure is one of {', '.join(get_args(SecurityProtocol))}, not {protocol!r}")
        self.protocol = protocol
        self.directory = directory
        self._has_sasl, self._has_tls = protocol != "SSL", protocol != "SASL_PLAINTEXT"
        if self._has_tls:
            write_certificates(directory, USERS)
        self.users: dict[str, dict[str, str]] = (
            {f"users/{user}": _credentials(password) for user, password in USERS.items()} if self._has_sasl else {}
        )
        """The SCRAM credentials in /config, keyed by entity."""

    def broker_settings(self) -> dict[str, str]:
        """Return the settings of the brokers."""
        own = "listener.name.external."
        settings = {
            "listener.security.protocol.map": f"INTERNAL:PLAINTEXT,EXTERNAL:{self.protocol}",
            "inter.broker.listener.name": "EXTERNAL",
        }
        if self._has_tls:
            settings[f"{own}ssl.keystore.location"] = str(self.directory / BROKER)
            settings[f"{own}ssl.truststore.location"] = str(self.directory / AUTHORITY)
        if self._has_sasl:
            known = {**USERS, BROKER_USER: _BROKER_PASSWORD}
            users = " ".join(f'user_{user}="{password}"' for user, password in known.items())
            login = f'username="{BROKER_USER}" password="{_BROKER_PASSWORD}"'
            settings["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
            settings[f"{own}sasl.enabled.mechanisms"] = ",".join(get_args(SaslMechanism))
            settings[f"{own}plain.sasl.jaas.config"] = f"{_PLAIN_MODULE} required {login} {users};"
        else:
            settings[f"{own}ssl.client.auth"] = "required"
            settings[f"{own}ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+),.*$/$1/"
        return settings

    def client_settings(self, library: ClientLibrary, user: str, mechanism: SaslMechanism) -> dict[str, Any]:
        """Return the security settings of a client of that library. Raises ValueError for an unknown user."""
        if user not in USERS:
            raise ValueError(f"{user!r} is not one of {', '.join(USERS)}")
        if mechanism not in get_args(SaslMechanism):
            raise ValueError(f"{mechanism!r} is not one of {', '.join(get_args(SaslMechanism))}")
        makers = {
            "confluent": self._librdkafka,
            "java": self._java,
            "aiokafka": self._aiokafka,
            "kafka-python": self._kafka_python,
        }
        return makers[library](user, mechanism)

    def _certificate(self, user: str) -> str:
        return str(self.directory / f"{user}.pem")

    def _librdkafka(self, user: str, mechanism: str) -> dict[str, Any]:
        settings: dict[str, Any] = {"security.protocol": self.protocol}
        if self._has_tls:
            settings["ssl.ca.location"] = str(self.directory / AUTHORITY)
        if self._has_sasl:
            settings |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": USERS[user]}
        else:
            settings |= {
                "ssl.certificate.location": self._certificate(user),
                "ssl.key.location": self._certificate(user),
            }
        return settings

    def _java(self, user: str, mechanism: str) -> dict[str, Any]:
        settings: dict[str, Any] = {"security.protocol": self.protocol}
        if self._has_tls:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory / AUTHORITY)}
        if self._has_sasl:
            module = _PLAIN_MODULE if mechanism == "PLAIN" else _SCRAM_MODULE
            login = f'{module} required username="{user}" password="{USERS[user]}";'
            settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
        else:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self._certificate(user)}
        return settings

    def _aiokafka(self, user: str, mechanism: str) -> dict[str, Any]:
        settings = self._python(user, mechanism)
        if self._has_tls:
            context = ssl.create_default_context(cafile=self.directory / AUTHORITY)
            if not self._has_sasl:
                context.load_cert_chain(self._certificate(user))
            settings["ssl_context"] = context
        return settings

    def _kafka_python(self, user: str, mechanism: str) -> dict[str, Any]:
        settings = self._python(user, mechanism)
        if self._has_tls:
            settings["ssl_cafile"] = str(self.directory / AUTHORITY)
        if not self._has_sasl:
            settings |= dict.fromkeys(("ssl_certfile", "ssl_keyfile"), self._certificate(user))
        return settings

    def _python(self, user: str, mechanism: str) -> dict[str, Any]:
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self._has_sasl:
            login = {"sasl_plain_username": user, "sasl_plain_password": USERS[user]}
            settings |= {"sasl_mechanism": mechanism, **login}
        return settings


def _credentials(password: str) -> dict[str, str]:
    """Return the SCRAM credentials of a new user, in the form of /config/users."""
    from zabka.broker_sim.configs.scram_credentials import MECHANISMS, password_upsertion, stored_credential

    return {
        name: stored_credential(password_upsertion(number, password, os.urandom(_SALT_BYTES)))
        for number, name in MECHANISMS.items()
    }
