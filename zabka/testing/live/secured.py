"""A secured listener of a live cluster: the brokers' settings, the users, and the settings of client libraries.

Each broker has two listeners: EXTERNAL with the security protocol, for clients and other brokers, and INTERNAL in plain
text on the loopback interface, for the fixture's own requests. Brokers connect to each other as the user `broker`.
Tokens of OAUTHBEARER are unsigned, so any client can make them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from zabka.compose.certificates import write_certificates
from zabka.compose.client_settings import SETTINGS_OF, Login, plain_users
from zabka.compose.secured_nodes import AUTHORITY
from zabka.testing.cluster import ClientLibrary, ClusterFailed

SecurityProtocol = Literal["SSL", "SASL_SSL", "SASL_PLAINTEXT"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
USERS: Mapping[str, str] = {"alice": "alice-secret", "bob": "bob-secret"}
"""The users of a secured cluster, and their passwords."""
BROKER_USER, _BROKER_PASSWORD = "broker", "broker-secret"
"""The user with which brokers connect to each other."""
_SALT_BYTES = 16


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
            write_certificates(directory, {"broker": ()}, USERS)
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
            settings[f"{own}ssl.keystore.location"] = str(self.directory / "broker.pem")
            settings[f"{own}ssl.truststore.location"] = str(self.directory / AUTHORITY)
        if self._has_sasl:
            settings["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
            settings[f"{own}sasl.enabled.mechanisms"] = ",".join(get_args(SaslMechanism))
            known = {**USERS, BROKER_USER: _BROKER_PASSWORD}
            settings[f"{own}plain.sasl.jaas.config"] = plain_users(known, own=BROKER_USER)
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
        authority = self.directory / AUTHORITY if self._has_tls else None
        login = Login(self.protocol, authority, mechanism, user, USERS[user])
        if not self._has_sasl:
            login = Login(self.protocol, authority, certificate=self.directory / f"{user}.pem")
        return SETTINGS_OF[library](login)


def _credentials(password: str) -> dict[str, str]:
    """Return the SCRAM credentials of a new user, in the form of /config/users."""
    from zabka.broker_sim.configs.scram_credentials import MECHANISMS, password_upsertion, stored_credential

    return {
        name: stored_credential(password_upsertion(number, password, os.urandom(_SALT_BYTES)))
        for number, name in MECHANISMS.items()
    }
