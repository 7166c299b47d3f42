"""The security settings of a Kafka client, with the keys of each client library.

Tokens of OAUTHBEARER are unsigned, so any client can make them.
"""

from __future__ import annotations

import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_KAFKA_PYTHON_MODULES = ("kafka.net.sasl.oauth", "kafka.sasl.oauth")
"""Modules with the token provider of kafka-python, in version 3 and before it."""
_TOKEN_S = 3_600


class Login(NamedTuple):
    """How a client connects to a secured listener.

    `authority` is the certificate that verifies brokers, or None without TLS. The client authenticates by a user name
    and password, or by the certificate in the file `certificate`.
    """

    protocol: str
    authority: Path | None
    mechanism: str = ""
    user: str = ""
    password: str = ""
    certificate: Path | None = None


def java(login: Login) -> dict[str, Any]:
    """Return the settings of Kafka's own clients and tools."""
    settings: dict[str, Any] = {"security.protocol": login.protocol}
    if login.authority is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(login.authority)}
    if login.mechanism:
        module = PLAIN_MODULE if login.mechanism == PLAIN else SCRAM_MODULE
        line = f'{module} required username="{login.user}" password="{login.password}";'
        if login.mechanism == OAUTHBEARER:
            line = f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="{login.user}";'
        settings |= {"sasl.mechanism": login.mechanism, "sasl.jaas.config": line}
    if login.certificate is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(login.certificate)}
    return settings


def librdkafka(login: Login) -> dict[str, Any]:
    """Return the settings of librdkafka: confluent-kafka, kcat."""
    settings: dict[str, Any] = {"security.protocol": login.protocol}
    if login.authority is not None:
        settings["ssl.ca.location"] = str(login.authority)
    if login.mechanism == OAUTHBEARER:
        settings |= {
            "sasl.mechanism": login.mechanism,
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={login.user}",
        }
    elif login.mechanism:
        settings |= {
            "sasl.mechanism": login.mechanism,
            "sasl.username": login.user,
            "sasl.password": login.password,
        }
    if login.certificate is not None:
        settings |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(login.certificate))
    return settings


def aiokafka(login: Login) -> dict[str, Any]:
    """Return the arguments of aiokafka's clients."""
    settings = _python(login)
    if login.mechanism == OAUTHBEARER:
        settings["sasl_oauth_token_provider"] = _token_provider(login.user, "aiokafka.abc", is_async=True)
    if login.authority is not None:
        context = ssl.create_default_context(cafile=login.authority)
        if login.certificate is not None:
            context.load_cert_chain(login.certificate)
        settings["ssl_context"] = context
    return settings


def kafka_python(login: Login) -> dict[str, Any]:
    """Return the arguments of kafka-python's clients."""
    settings = _python(login)
    if login.mechanism == OAUTHBEARER:
        settings["sasl_oauth_token_provider"] = _token_provider(login.user, *_KAFKA_PYTHON_MODULES)
    if login.authority is not None:
        settings["ssl_cafile"] = str(login.authority)
    if login.certificate is not None:
        settings |= dict.fromkeys(("ssl_certfile", "ssl_keyfile"), str(login.certificate))
    return settings


def _python(login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {"security_protocol": login.protocol}
    if login.mechanism:
        settings["sasl_mechanism"] = login.mechanism
    if login.mechanism not in ("", OAUTHBEARER):
        settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
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


SETTINGS_OF: Mapping[str, Callable[[Login], dict[str, Any]]] = {
    "confluent": librdkafka,
    "java": java,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}
"""The function that returns the settings, for each client library."""


def plain_users(users: Mapping[str, str], own: str = "") -> str:
    """Return the sasl.jaas.config of a broker's listener for SASL PLAIN.

    `own` is the user as which the broker itself connects to other brokers, if it does.
    """
    login = f'username="{own}" password="{users[own]}" ' if own else ""
    listed = " ".join(f'user_{user}="{password}"' for user, password in users.items())
    return f"{PLAIN_MODULE} required {login}{listed};"
