"""A broker's copy of all users' SCRAM credentials (Kafka's CredentialCache). `EntityConfigs` updates it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import split_list
from zabka.kafka.scram import HASHES


class ScramCredential(NamedTuple):
    """What a server stores instead of a password (RFC 5802, section 3)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Representation without the keys."""
        return f"ScramCredential(iterations={self.iterations})"


class CredentialCache:
    """Credentials by mechanism and user. A credential that cannot be parsed counts as absent."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], ScramCredential] = {}

    def update(self, user: str, overrides: Mapping[str, str]) -> None:
        """Replace the credentials of a user by those in the overrides of its znode."""
        for mechanism in HASHES:
            parsed = _parsed(overrides.get(mechanism, ""))
            if parsed is None:
                self._found.pop((mechanism, user), None)
            else:
                self._found[mechanism, user] = parsed

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return a user's credential for a mechanism, or None if there is none."""
        return self._found.get((mechanism, user))


def _parsed(text: str) -> ScramCredential | None:
    fields = dict(part.split("=", 1) for part in split_list(text) if "=" in part)
    try:
        salt, stored_key, server_key = (
            b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        return ScramCredential(salt, stored_key, server_key, int(fields["iterations"]))
    except (KeyError, ValueError):
        return None
