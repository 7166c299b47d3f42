"""Users of brokers with SASL, for the tests of clients."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
ITERATIONS = 4_096


def upsert_scram_user(bootstrap: str, user: str, passwords: Mapping[str, str]) -> None:
    """Set a user's passwords, keyed by mechanism, through a listener without authentication."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism, password in passwords.items():
        info = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], ITERATIONS)
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, password.encode())])[user].result(
            30
        )
