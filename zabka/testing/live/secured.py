"""A secured listener of a live cluster: the brokers' settings, the users, and the settings of client libraries.

Each broker has two listeners: INTERNAL in plain text on the loopback interface, for other brokers and for the fixture's
own requests, and EXTERNAL with the security protocol, for clients. Tokens of OAUTHBEARER are unsigned, so any client
can make them.
"""

from __future__ import annotations

import os
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from contextlib import suppress
from hashlib import pbkdf2_hmac
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from zabka.testing.cluster import ClientLibrary, ClusterFailed
from zabka.testing.live.certificates import AUTHORITY, BROKER, write_certificates

SecurityProtocol = Literal["SSL", "SASL_SSL", "SASL_PLAINTEXT"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
USERS: Mapping[str, str] = {"alice": "alice-secret", "bob": "bob-secret"}
"""The users of a secured cluster, and their passwords."""
_ITERATIONS = 4_096
_SALT_BYTES = 16
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_KAFKA_PYTHON_MODULES = ("kafka.net.sasl.oauth", "kafka.sasl.oauth")
"""Modules with the token provider of kafka-python, in version 3 and before it."""
_TOKEN_S = 3_600
_HASHES = {1: "sha256", 2: "sha512"}


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
        settings = {"listener.security.protocol.map": f"INTERNAL:PLAINTEXT,EXTERNAL:{self.protocol}"}
        if self._has_tls:
            settings[f"{own}ssl.keystore.location"] = str(self.directory / BROKER)
        if self._has_sasl:
            users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
            settings[f"{own}sasl.enabled.mechanisms"] = ",".join(get_args(SaslMechanism))
            settings[f"{own}plain.sasl.jaas.config"] = f"{_PLAIN_MODULE} required {users};"
        else:
            settings[f"{own}ssl.client.auth"] = "required"
            settings[f"{own}ssl.truststore.location"] = str(self.directory / AUTHORITY)
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
        if mechanism == "OAUTHBEARER" and self._has_sasl:
            settings |= {
                "sasl.mechanism": mechanism,
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={user}",
            }
        elif self._has_sasl:
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
            if mechanism == "OAUTHBEARER":
                login = f'{_OAUTH_MODULE} required unsecuredLoginStringClaim_sub="{user}";'
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
        if settings.get("sasl_mechanism") == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = _token_provider(user, "aiokafka.abc", is_async=True)
        return settings

    def _kafka_python(self, user: str, mechanism: str) -> dict[str, Any]:
        settings = self._python(user, mechanism)
        if self._has_tls:
            settings["ssl_cafile"] = str(self.directory / AUTHORITY)
        if not self._has_sasl:
            settings |= dict.fromkeys(("ssl_certfile", "ssl_keyfile"), self._certificate(user))
        if settings.get("sasl_mechanism") == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = _token_provider(user, *_KAFKA_PYTHON_MODULES)
        return settings

    def _python(self, user: str, mechanism: str) -> dict[str, Any]:
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self._has_sasl:
            settings["sasl_mechanism"] = mechanism
            if mechanism != "OAUTHBEARER":
                settings |= {"sasl_plain_username": user, "sasl_plain_password": USERS[user]}
        return settings


def unsigned_token(user: str) -> str:
    """Return a token of OAUTHBEARER for a user that is valid for an hour."""
    now_s = int(time.time())
    claims = {"sub": user, "iat": now_s, "exp": now_s + _TOKEN_S}
    parts = (urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=") for part in ({"alg": "none"}, claims))
    return f"{'.'.join(parts)}."


def _token_provider(user: str, *modules: str, is_async: bool = False) -> object:
    """Return a token provider for the Python library that has the first of these modules. It is the user's library."""
    base: type | None = None
    for name in modules:
        with suppress(ModuleNotFoundError):
            base = base or import_module(name).AbstractTokenProvider
    if base is None:
        raise ModuleNotFoundError(f"no module named {modules[0]}: is the library installed?")

    async def token(provider: object) -> str:
        return unsigned_token(user)

    return type("Tokens", (base,), {"token": token if is_async else lambda provider: unsigned_token(user)})()


def _credentials(password: str) -> dict[str, str]:
    """Return the SCRAM credentials of a new user, in the form of /config/users."""
    from zabka.broker_sim.configs.scram_credentials import MECHANISMS, Upsertion, stored_credential

    found: dict[str, str] = {}
    for number, name in MECHANISMS.items():
        salt = os.urandom(_SALT_BYTES)
        salted = pbkdf2_hmac(_HASHES[number], password.encode(), salt, _ITERATIONS)
        found[name] = stored_credential(Upsertion(number, _ITERATIONS, salt, salted))
    return found
