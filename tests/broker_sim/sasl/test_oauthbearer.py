"""The exchange of SASL OAUTHBEARER, and the verification of unsigned and signed tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.broker_sim.sasl.token_cases import CASES, SIGNED, Case, encoded, first, key_set, private_keys, signed
from zabka.broker_sim.configs.oauth_keys import (
    OAUTH_KEYS,
    SIGNED_HANDLERS,
    SignedTokenKeys,
    UnsecuredTokenKeys,
    read_token_keys,
)
from zabka.broker_sim.sasl.mechanism import AuthenticationRefused
from zabka.broker_sim.sasl.oauthbearer import OAuthBearerServer
from zabka.broker_sim.sasl.signed_tokens import BadKeySet, SignedTokens, parse_key_set
from zabka.broker_sim.sasl.tokens import TokenRejected
from zabka.broker_sim.sasl.unsecured_tokens import UnsecuredTokens
from zabka.ensemble.auth.digest_md5 import SaslError

NOW_S = 1_800_000_000
HANDLER = "listener.name.clients.oauthbearer.sasl.server.callback.handler.class"


def server(case: Case, missing: list[str] | None = None) -> OAuthBearerServer:
    """Return the server of a case, whose clock shows NOW_S."""
    if case.kind == SIGNED:
        values = {key.name: key.default for key in OAUTH_KEYS} | {"sasl.oauthbearer.jwks.endpoint.url": "file:/k"}
        values |= {key.name: key.parse(case.options[key.name]) for key in OAUTH_KEYS if key.name in case.options}
        keys = read_token_keys(values, {HANDLER: SIGNED_HANDLERS[0]}, "CLIENTS", {})
        assert isinstance(keys, SignedTokenKeys)
        known = parse_key_set(key_set())
        asked = [] if missing is None else missing
        return OAuthBearerServer(SignedTokens(keys, lambda: known, asked.append, lambda: NOW_S * 1_000).verify)
    plain = read_token_keys({}, {}, "CLIENTS", case.options)
    assert isinstance(plain, UnsecuredTokenKeys)
    return OAuthBearerServer(UnsecuredTokens(plain, lambda: NOW_S * 1_000).verify)


def outcome(found: OAuthBearerServer, messages: list[bytes]) -> str:
    response = b""
    try:
        for message in messages:
            response = found.respond(message)
    except AuthenticationRefused as refused:
        return f"refused {refused}"
    except SaslError as invalid:
        return f"invalid {invalid}"
    if response:
        return f"error {response.decode()}"
    assert found.expires_ms is not None
    return f"complete {found.user} +{round((found.expires_ms - NOW_S * 1_000) / 1_000)}"


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_exchange_ends_as_in_kafka(case: Case) -> None:
    found = server(case)
    ended = outcome(found, case.messages(NOW_S))
    assert ended == case.outcome or (case.outcome == "invalid" and ended.startswith("invalid "))
    assert (found.user is not None) is ended.startswith("complete ")
    token = case.messages(NOW_S)[0].decode(errors="replace").partition("Bearer ")[2].partition("\x01")[0]
    assert len(token) < 10 or token not in ended + found.rejection


def test_unknown_key_id_causes_a_fetch_and_a_known_one_does_not() -> None:
    missing: list[str] = []
    found = server(next(case for case in CASES if case.kind == SIGNED), missing)
    unknown = f"{encoded({'alg': 'none'})}.e30.e30"
    for token in (signed(NOW_S, key_id="new"), signed(NOW_S, "other", "ES256", None), signed(NOW_S), unknown):
        found.respond(first(token))
    assert missing == ["new"]
    assert found.rejection == "invalid_token: no key of the issuer has the id (none) and the algorithm 'none'"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"<html>", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", 'it has no list "keys"'),
        (b'{"keys": {}}', 'it has no list "keys"'),
        (b'{"keys": [1, {"kty": "RSA", "n": 1}, {"kty": "EC"}]}', "none of its 3 keys can verify a signature"),
        (b'{"keys": [{"kty": "oct"}, {"kty": "OKP", "crv": "Ed25519"}]}', "none of its 2 keys can verify a signature"),
    ],
)
def test_key_set_without_usable_keys_is_rejected(text: bytes, reason: str) -> None:
    with pytest.raises(BadKeySet) as bad:
        parse_key_set(text)
    assert str(bad.value) == reason


@pytest.mark.parametrize(("name", "algorithm", "kind"), [("rsa", "RS256", RSAAlgorithm), ("ec", "ES256", ECAlgorithm)])
def test_private_key_of_a_set_verifies_with_its_public_part(name: str, algorithm: str, kind: Any) -> None:
    member = json.loads(kind.to_jwk(private_keys()[name]))
    assert "d" in member
    known = parse_key_set(json.dumps({"keys": [{"kty": "oct"}, {**member, "kid": name}]}).encode())
    keys = SignedTokenKeys("file:/k", frozenset(), "", 30, "scope", "sub", 1, 1, 1, {})
    verify = SignedTokens(keys, lambda: known, lambda key_id: None, lambda: NOW_S * 1_000).verify
    assert verify(signed(NOW_S, name, algorithm)).principal == "alice"
    with pytest.raises(TokenRejected, match="the signature is not valid"):
        verify(signed(NOW_S, name, algorithm)[:-8] + "AAAAAAAA")
