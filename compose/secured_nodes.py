"""The settings of the nodes of a secured cluster (`zabka up --secure`).

| connection | protocol | the client authenticates by |
| --- | --- | --- |
| client to broker, broker to broker | SASL_SSL | user and password (PLAIN; users of SCRAM can be added) |
| broker, API to peer | TLS | a certificate |
| peer to peer | TLS | a certificate |
| browser, command line to API | HTTPS | the token, for requests that change something or read records |

An authorizer denies every request that no ACL allows. The brokers, the API and `admin` are super users.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zabka.compose.client_settings import PLAIN, plain_users
from zabka.ensemble.properties import decode_properties, read_properties

PROTOCOL = "SASL_SSL"
AUTHORITY = "ca.pem"
ADMIN, API, BROKER, PEER = "admin", "api", "broker", "peer"
SUPER_USERS = (ADMIN, API, BROKER)
USERS_FILE = "users.properties"
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


def certificate(directory: Path, owner: str) -> Path:
    """Return the file with the key and certificate of a node or user."""
    return directory / f"{owner}.pem"


def read_users(directory: Path) -> dict[str, str]:
    """Return the passwords of all users, keyed by name. Raises OSError."""
    return read_properties(decode_properties((directory / USERS_FILE).read_bytes()))


def peer_settings(directory: Path) -> dict[str, str]:
    """Return the keys of zoo.cfg: TLS for clients, which must present a certificate, and between peers."""
    stores: dict[str, str] = {}
    for prefix in ("ssl.", "ssl.quorum."):
        stores |= _stores(f"{prefix}keyStore", certificate(directory, PEER))
        stores |= _stores(f"{prefix}trustStore", directory / AUTHORITY)
    return {"sslQuorum": "true", "ssl.clientAuth": "need", **stores}


def broker_settings(directory: Path, listeners: tuple[str, ...], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of server.properties: SASL_SSL on the listeners, the authorizer, and TLS to the ensemble.

    `overrides` are the user's own settings; their super users are added to those of the cluster. Raises OSError.
    """
    users = plain_users(read_users(directory), own=BROKER)
    own = {f"listener.name.{name.lower()}.plain.sasl.jaas.config": users for name in listeners}
    key, authority = certificate(directory, BROKER), directory / AUTHORITY
    supers = ";".join(f"User:{user}" for user in SUPER_USERS)
    return {
        "sasl.enabled.mechanisms": MECHANISMS,
        "sasl.mechanism.inter.broker.protocol": PLAIN,
        **own,
        **_stores("ssl.keystore", key),
        **_stores("ssl.truststore", authority),
        "authorizer.class.name": AUTHORIZER,
        "zookeeper.ssl.client.enable": "true",
        **_stores("zookeeper.ssl.keystore", key),
        **_stores("zookeeper.ssl.truststore", authority),
        **overrides,
        "super.users": ";".join(filter(None, (supers, overrides.get("super.users", "")))),
    }


def secrets_of(kind: str) -> tuple[str, ...]:
    """Return the names of the secrets that a peer, a broker or the API needs."""
    own = {BROKER: (USERS_FILE,), API: (f"{API}.properties",)}.get(kind, ())
    return (AUTHORITY, f"{kind}.pem", *own)


def api_security(directory: Path) -> dict[str, str]:
    """Return the settings of the API's connections (`zabka.api.settings.Security`)."""
    return {
        "directory": str(directory),
        "authority": str(directory / AUTHORITY),
        "certificate": str(certificate(directory, API)),
        "client_properties": str(directory / f"{API}.properties"),
    }


def _stores(prefix: str, path: Path) -> dict[str, str]:
    return {f"{prefix}.location": str(path), f"{prefix}.type": "PEM"}
