"""SCRAM credentials of users, which AlterUserScramCredentials stores in /config/users (KIP-554).

Brokers authenticate clients against their copies of the credentials: see `CredentialCache`.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.configs.config_def import split_list
from zabka.broker_sim.configs.entity_znodes import EntityZnodes, node_name
from zabka.broker_sim.refusals import Refused
from zabka.ensemble.errors import ZooKeeperError
from zabka.kafka.scram import ITERATIONS_MIN, SCRAM_SHA_256, SCRAM_SHA_512, Upsertion, keys_of, salted_password

MECHANISMS = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
ITERATIONS_MAX = 16_384


class Credential(NamedTuple):
    """A user's credential for one SCRAM mechanism."""

    mechanism: int
    iterations: int


class ScramResult(NamedTuple):
    """Result for one user of a request."""

    user: str
    error: KafkaError = KafkaError.none
    message: str | None = None
    credentials: tuple[Credential, ...] = ()


class ScramCredentials:
    """Stores SCRAM credentials in the znodes of the users' overrides."""

    def __init__(self, znodes: EntityZnodes) -> None:
        self._znodes = znodes

    async def describe(self, users: Sequence[str] | None) -> list[ScramResult]:
        """Return the credentials of these users, or of all users that have one. Raises ZooKeeperError."""
        if not users:
            nodes = await self._znodes.names("users")
            results = [await self._describe(unquote(node)) for node in nodes if node != node_name(None)]
            return [result for result in results if result.credentials]
        results = []
        for user, times in Counter(users).items():
            if times > 1:
                message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
                results.append(ScramResult(user, KafkaError.duplicate_resource, message))
                continue
            result = await self._describe(user)
            if not result.credentials:
                message = f"Attempt to describe a user credential that does not exist: {user}"
                result = ScramResult(user, KafkaError.resource_not_found, message)
            results.append(result)
        return results

    async def _describe(self, user: str) -> ScramResult:
        overrides, _ = await self._znodes.read(f"users/{node_name(user)}")
        found = []
        for mechanism, name in MECHANISMS.items():
            if name in overrides:
                fields = dict(part.split("=", 1) for part in split_list(overrides[name]) if "=" in part)
                iterations = fields.get("iterations", "")
                found.append(Credential(mechanism, int(iterations) if iterations.isdigit() else 0))
        return ScramResult(user, credentials=tuple(found))

    async def alter(self, user: str, deletions: Sequence[int], upsertions: Sequence[Upsertion]) -> ScramResult:
        """Remove and set credentials of one user. Either all changes are applied, or none."""
        try:
            if not user:
                raise Refused(KafkaError.unacceptable_credential, "Username must not be empty")
            _check(user, deletions, upsertions)
            path = f"users/{node_name(user)}"
            while True:
                overrides, version = await self._znodes.read(path)
                for mechanism in deletions:
                    if overrides.pop(MECHANISMS[mechanism], None) is None:
                        raise Refused(
                            KafkaError.resource_not_found, "Attempt to delete a user credential that does not exist"
                        )
                for upsertion in upsertions:
                    overrides[MECHANISMS[upsertion.mechanism]] = stored_credential(upsertion)
                written = self._znodes.write if overrides else self._clear
                if await written(path, overrides, version):
                    return ScramResult(user)
        except Refused as refused:
            return ScramResult(user, refused.error, refused.message)
        except ZooKeeperError as failure:
            return ScramResult(user, KafkaError.unknown_server_error, str(failure))

    async def _clear(self, path: str, _: object, version: int) -> bool:
        return await self._znodes.clear(path, version)


def _check(user: str, deletions: Sequence[int], upsertions: Sequence[Upsertion]) -> None:
    mechanisms = [*deletions, *(upsertion.mechanism for upsertion in upsertions)]
    if any(mechanism not in MECHANISMS for mechanism in mechanisms):
        raise Refused(KafkaError.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if len(set(mechanisms)) != len(mechanisms):
        raise Refused(
            KafkaError.duplicate_resource,
            "A user credential cannot be altered twice in the same request",
        )
    for upsertion in upsertions:
        if upsertion.iterations < ITERATIONS_MIN:
            raise Refused(KafkaError.unacceptable_credential, "Too few iterations")
        if upsertion.iterations > ITERATIONS_MAX:
            raise Refused(KafkaError.unacceptable_credential, "Too many iterations")
        if not upsertion.salted_password:
            raise Refused(KafkaError.unknown_server_error, "Empty key")


def password_upsertion(mechanism: int, password: str, salt: bytes, iterations: int = ITERATIONS_MIN) -> Upsertion:
    """Return the change that sets a user's credential to this password."""
    return Upsertion(mechanism, iterations, salt, salted_password(MECHANISMS[mechanism], password, salt, iterations))


def stored_credential(upsertion: Upsertion) -> str:
    """Return the credential string to store instead of the password (RFC 5802, 3).

    With it, a server can verify a login but cannot log in itself.
    """
    keys = keys_of(MECHANISMS[upsertion.mechanism], upsertion.salted_password)
    parts = {
        "salt": base64.b64encode(upsertion.salt).decode(),
        "stored_key": base64.b64encode(keys.stored_key).decode(),
        "server_key": base64.b64encode(keys.server_key).decode(),
        "iterations": str(upsertion.iterations),
    }
    return ",".join(f"{name}={value}" for name, value in parts.items())
