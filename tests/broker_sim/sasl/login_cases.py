"""Logins with OAUTHBEARER and their outcomes, which are compared with those of Kafka's classes too."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.broker_sim.sasl.token_cases import SIGNED, UNSECURED, encoded
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.login_keys import (
    CLIENT_LOGIN_KEYS,
    FETCHED_LOGINS,
    UNSECURED_LOGIN,
    FetchedLogin,
    TokenLoginKeys,
    UnsecuredLogin,
    read_login,
)
from zabka.broker_sim.sasl.login_tokens import LoginToken, checked_token, unsigned_token
from zabka.broker_sim.sasl.tokens import TokenRejected
from zabka.kafka.sasl_login import BearerToken, log_in

NOW_MS = 1_800_000_000_123
REFUSED = None


class LoginCase(NamedTuple):
    """A login. `token` is what an issuer's file contains; `expected` has the claims, or is None if it is refused."""

    name: str
    kind: str
    options: Mapping[str, str]
    expected: Mapping[str, Any] | None
    token: str = ""
    extensions: Mapping[str, str] = {}


def _options(**options: str) -> dict[str, str]:
    return {f"unsecuredLogin{name}": text for name, text in options.items()}


def _made(name: str, expected: Mapping[str, Any] | None, **options: str) -> LoginCase:
    return LoginCase(name, UNSECURED, _options(**{"StringClaim_sub": "broker", **options}), expected)


def _file(name: str, expected: Mapping[str, Any] | None, claims: object, end: str = "c2ln") -> LoginCase:
    token = claims if isinstance(claims, str) else f"{encoded({'alg': 'x'})}.{encoded(claims)}.{end}"  # type: ignore[arg-type]
    return LoginCase(name, SIGNED, {}, expected, token)


SUB = {"sub": "broker", "lifetime": 3600}
CLAIMS = {"sub": "broker", "iat": 1_000, "exp": 2_000}
CASES = [
    _made("least", SUB),
    _made("lifetime", SUB | {"lifetime": 60}, LifetimeSeconds="60"),
    _made("lifetime with a sign", SUB | {"lifetime": -5}, LifetimeSeconds="-5"),
    _made("lifetime is no number", REFUSED, LifetimeSeconds="1m"),
    _made("lifetime is empty", REFUSED, LifetimeSeconds=""),
    _made("lifetime has blanks", REFUSED, LifetimeSeconds=" 60"),
    _made("principal claim", SUB | {"name": "b1"}, PrincipalClaimName=" name ", StringClaim_name="b1"),
    _made("missing principal", REFUSED, PrincipalClaimName="name"),
    _made("principal is a number", REFUSED, PrincipalClaimName="n", NumberClaim_n="1"),
    _made("principal is a time", REFUSED, PrincipalClaimName="iat"),
    _made("blank principal", REFUSED, StringClaim_sub="  "),
    _made("number", SUB | {"n": -1.5}, NumberClaim_n=" -1.5f "),
    _made("number with an exponent", SUB | {"n": 2000.0}, NumberClaim_n="2e3"),
    _made("no number", REFUSED, NumberClaim_n="1_000"),
    _made("not finite", REFUSED, NumberClaim_n="NaN"),
    _made("too large", REFUSED, NumberClaim_n="1e999"),
    _made("list", SUB | {"scope": ["a", "b"]}, ListClaim_scope="|a|b"),
    _made("list with another delimiter", SUB | {"scope": ["a b", "c"]}, ListClaim_scope=",a b,c"),
    _made("empty list", SUB | {"scope": []}, ListClaim_scope="|"),
    _made("list with empty members", SUB | {"scope": ["", "a", "", "b", ""]}, ListClaim_scope=".." + "a..b.."),
    _made("list with an empty end", SUB | {"scope": ["a", ""]}, ListClaim_scope="^a^"),
    _made("list of nothing", REFUSED, ListClaim_scope="||"),
    *(_made(f"delimiter {sign}", REFUSED, ListClaim_scope=f"{sign}a{sign}b") for sign in "*+?)"),
    *(_made(f"delimiter {sign}", SUB | {"x": ["a", "b"]}, ListClaim_x=f"{sign}a{sign}b") for sign in ".[({^$]}-"),
    _made("backslash", SUB | {"x": "a\\b"}, StringClaim_x="a\\b"),
    _made("quote", REFUSED, StringClaim_x='a"b'),
    _made("control character", REFUSED, StringClaim_x="a\x01b"),
    _made("scope is a number", REFUSED, NumberClaim_scope="1"),
    _made("scope claim", SUB | {"scp": "a"}, ScopeClaimName="scp", StringClaim_scp="a"),
    _made("reserved claim", REFUSED, NumberClaim_exp="1"),
    _made("claim without a name", SUB, NumberClaim_="x"),
    LoginCase("only extensions", UNSECURED, _options(Extension_a="1"), REFUSED),
    LoginCase(
        "extensions", UNSECURED, _options(StringClaim_sub="broker", Extension_a="1 2", Extension_B="x=y"), SUB,
        extensions={"a": "1 2", "B": "x=y"},
    ),
    LoginCase("extension is reserved", UNSECURED, _options(StringClaim_sub="b", Extension_auth="1"), REFUSED),
    LoginCase("extension name", UNSECURED, _options(StringClaim_sub="b", Extension_a1="1"), REFUSED),
    LoginCase("extension value", UNSECURED, _options(StringClaim_sub="b", Extension_a="\x7f"), REFUSED),
    LoginCase("empty extension", UNSECURED, _options(StringClaim_sub="b", Extension_a=""), REFUSED),
    _file("file", CLAIMS, CLAIMS),
    _file("file with a scope", CLAIMS | {"scope": "a b"}, CLAIMS | {"scope": "a b"}),
    _file("fraction", CLAIMS | {"exp": 2_000.9}, CLAIMS | {"exp": 2_000.9}),
    _file("not issued", {"sub": "broker", "exp": 1}, {"sub": "broker", "exp": 1}),
    _file("trimmed principal", CLAIMS | {"sub": " broker "}, CLAIMS | {"sub": " broker "}),
    _file("no expiry", REFUSED, {"sub": "broker"}),
    _file("negative expiry", REFUSED, CLAIMS | {"exp": -1}),
    _file("negative issue time", REFUSED, CLAIMS | {"iat": -1}),
    _file("expiry is text", REFUSED, CLAIMS | {"exp": "1"}),
    _file("no principal", REFUSED, {"exp": 1}),
    _file("blank principal of an issuer", REFUSED, CLAIMS | {"sub": " "}),
    _file("principal is a number of an issuer", REFUSED, CLAIMS | {"sub": 1}),
    _file("empty scope", REFUSED, CLAIMS | {"scope": ""}),
    _file("repeated scope", REFUSED, CLAIMS | {"scope": ["a", "a "]}),
    _file("no signature", REFUSED, CLAIMS, end=""),
    _file("two parts", REFUSED, "a.b"),
    _file("four parts", REFUSED, "a.b.c.d"),
    _file("empty file", REFUSED, " "),
    _file("no JSON", REFUSED, f"a.{encoded(b'{')}.c"),
    LoginCase(
        "extensions of an issuer's login", SIGNED, {"extension_a": "1", "clientId": "x"}, CLAIMS,
        _file("", None, CLAIMS).token, {"a": "1"},
    ),
    LoginCase("reserved of an issuer's login", SIGNED, {"extension_auth": "1"}, REFUSED, _file("", None, CLAIMS).token),
]  # fmt: skip


def login_keys(kind: str, options: Mapping[str, str], **changed: object) -> TokenLoginKeys:
    """Return the keys of a login with Kafka's defaults. Raises ConfigError."""
    values: dict[str, Any] = {key.name: key.default for key in CLIENT_LOGIN_KEYS}
    values |= {"sasl.oauthbearer.token.endpoint.url": "file:/token", **changed}
    return read_login(values.__getitem__, options, FETCHED_LOGINS[0] if kind == SIGNED else UNSECURED_LOGIN)


def login_token(keys: TokenLoginKeys, fetched: str) -> LoginToken:
    """Return the token of a login at NOW_MS. Raises ConfigError, TokenRejected."""
    if isinstance(keys.source, UnsecuredLogin):
        return unsigned_token(keys.source.options, NOW_MS)
    assert isinstance(keys.source, FetchedLogin)
    return checked_token(fetched, keys.source.scope_claim, keys.source.sub_claim)


def outcome(case: LoginCase) -> tuple[bytes, LoginToken] | None:
    """Return the client's first message and the token, or None if the login is refused."""
    try:
        keys = login_keys(case.kind, case.options)
        token = login_token(keys, case.token)
    except (ConfigError, TokenRejected):
        return None
    login = log_in(BearerToken(token.value, keys.extensions), "")
    next(login)
    enabled = type("Response", (), {"mechanisms": (), "error_code": 0})
    return bytes(login.send(enabled).auth_bytes), token


def contents(message: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the claims of the token in a first message, with the lifetime if it was made now, and the extensions."""
    head, auth, *pairs, end = message.decode().removesuffix("\x01").split("\x01")
    assert (head, end) == ("n,,", "")
    header, claims, _ = auth.removeprefix("auth=Bearer ").split(".")
    found = json.loads(urlsafe_b64decode(claims + "=="))
    if json.loads(urlsafe_b64decode(header + "==")) == {"alg": "none"}:
        found["lifetime"] = round(found.pop("exp") - found.pop("iat"))
    return found, dict(pair.partition("=")[::2] for pair in pairs)
