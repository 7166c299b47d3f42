"""Errors of requests about delegation tokens, as in KafkaApis without delegation.token.secret.key."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.listeners import Listener
from zabka.broker_sim.handlers.delegation_tokens import DelegationTokenHandlers
from zabka.broker_sim.principals import ANONYMOUS, KafkaPrincipal
from zabka.broker_sim.request_context import RequestContext
from zabka.kafka.acls import AclOperation, ResourceType
from zabka.kafka.wire.kafka_schema import ApiKey, request

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ALICE = KafkaPrincipal("User", "alice")
CREATE = ApiKey.CREATE_DELEGATION_TOKEN


def answer(
    key: ApiKey, listener: str, principal: KafkaPrincipal = ALICE, authorizer: object = None, **fields: Any
) -> Any:
    handlers = DelegationTokenHandlers(
        tuple(Listener(name, "h", 1, name) for name in PROTOCOLS), cast(Any, authorizer)
    ).table()
    context = RequestContext("c", listener, principal=principal)
    asked = request(
        key,
        3 if key == CREATE else 1,
        **{"renewers": [], "max_lifetime": 1_000, "hmac": b"x", "owners": None, **fields},
    )
    return asyncio.run(cast(Any, handlers[key](asked, context)))


class Permissions:
    """An authorizer that allows or denies everything, and notes the questions."""

    def __init__(self, allows: bool) -> None:
        self.questions: list[tuple[object, ...]] = []
        self._allows = allows

    def access(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(allows=lambda *question: self.questions.append(question) or self._allows)


@pytest.mark.parametrize("key", [each for each in ApiKey if "DELEGATION_TOKEN" in each.name])
@pytest.mark.parametrize("listener", PROTOCOLS)
def test_token_request_fails_as_without_a_secret_key(key: ApiKey, listener: str) -> None:
    disabled, refused = ErrorCode.delegation_token_auth_disabled, ErrorCode.delegation_token_request_not_allowed
    assert answer(key, listener).error_code is (refused if listener == "PLAINTEXT" else disabled)
    anonymous = answer(key, listener, ANONYMOUS).error_code
    assert anonymous is (refused if listener in ("PLAINTEXT", "SSL") else disabled)


def test_token_of_another_owner_needs_a_permission() -> None:
    owner = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    for allows, error in ((True, "auth_disabled"), (False, "authorization_failed")):
        permissions = Permissions(allows)
        found = answer(CREATE, "SASL_SSL", authorizer=permissions, **owner)
        assert found.error_code is ErrorCode[f"delegation_token_{error}"]
        assert (found.principal_name, found.token_requester_principal_name) == ("bob", "alice")
        assert permissions.questions == [(AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob")]
    own = Permissions(False)
    found = answer(CREATE, "SASL_SSL", authorizer=own, owner_principal_type="User", owner_principal_name="alice")
    assert found.error_code is ErrorCode.delegation_token_auth_disabled and own.questions == []


def test_renewer_of_another_principal_type_is_rejected() -> None:
    renewers = [{"principal_type": "Group", "principal_name": "g"}]
    assert answer(CREATE, "SASL_SSL", renewers=renewers).error_code is ErrorCode.invalid_principal_type
