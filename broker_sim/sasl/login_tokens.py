"""The token with which a broker or a client authenticates: its claims, and when it is replaced. Pure.

| token | source | Kafka's class |
|---|---|---|
| unsigned | options of the login module | OAuthBearerUnsecuredLoginCallbackHandler |
| an issuer's | HTTP or a file | LoginAccessTokenValidator, which does not verify its signature |
"""

from __future__ import annotations

import math
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.login_keys import RefreshKeys, TokenLoginKeys, UnsecuredLogin
from zabka.broker_sim.sasl.tokens import TokenRejected, check_scope, expiry_ms, json_part, seconds, text

RETRY_MS = 10_000
"""Pause before another try after a failed refresh, and between refreshes of an expired token."""
_PARTS = 3
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_OPTION = "unsecuredLogin"
_STRING, _NUMBER, _LIST = (f"{_OPTION}{kind}Claim_" for kind in ("String", "Number", "List"))
_EXTENSION = f"{_OPTION}Extension_"
_RESERVED = ("iat", "exp")
_LIFETIME_S = "3600"
_LONG = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?", re.ASCII)
_NO_REGEX = "*+?)"
"""Delimiters of list claims that are invalid as the regular expression that Kafka makes of them."""
_NO_JSON = re.compile(r'["\x00-\x1f]')


class LoginToken(NamedTuple):
    """A token with which connections authenticate. Times are on the wall clock; `begins_ms` is None if not known."""

    value: str
    principal: str
    begins_ms: int | None
    expires_ms: int

    def __repr__(self) -> str:
        """Representation without the token."""
        return f"LoginToken({self.principal}, {self.expires_ms})"


def check_login(keys: TokenLoginKeys) -> None:
    """Raise ConfigError if the options of the login module give no token."""
    if isinstance(keys.source, UnsecuredLogin):
        unsigned_token(keys.source.options, 0)


def unsigned_token(options: Mapping[str, str], wall_ms: int) -> LoginToken:
    """Return an unsigned token with the claims of these options. Raises ConfigError, as Kafka fails for them."""
    if options and all(name.startswith(_EXTENSION) for name in options):
        raise ConfigError("Extensions provided in login context without a token")
    lifetime = options.get(f"{_OPTION}LifetimeSeconds", _LIFETIME_S)
    if _LONG.fullmatch(lifetime) is None or not -(2**63) <= int(lifetime) < 2**63:
        raise ConfigError(f'{_OPTION}LifetimeSeconds: For input string: "{lifetime}"')
    claims: dict[str, object] = {"exp": wall_ms / 1_000 + int(lifetime), "iat": wall_ms / 1_000}
    claims |= dict(_claims(options))
    principal_claim = options.get(f"{_OPTION}PrincipalClaimName", "").strip() or "sub"
    principal = claims.get(principal_claim, "")
    if not isinstance(principal, str):
        raise ConfigError(f"The '{principal_claim}' claim was not of type String")
    if not principal.strip():
        raise ConfigError(
            f"No principal name in JWT claim: {principal_claim}. Set the option {_STRING}{principal_claim}"
        )
    scope_claim = options.get(f"{_OPTION}ScopeClaimName", "").strip() or "scope"
    if not isinstance(claims.get(scope_claim, ""), str | list):
        raise ConfigError(f"The '{scope_claim}' claim was not of type List")
    value = f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."
    return LoginToken(value, principal, wall_ms, expiry_ms(wall_ms / 1_000 + int(lifetime)))


def _claims(options: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """Yield the claims of the options. Raises ConfigError."""
    readers = {_STRING: _string, _NUMBER: _number, _LIST: _list}
    for option, value in options.items():
        prefix = next((each for each in readers if option.startswith(each) and option != each), None)
        if prefix is None:
            continue
        name = option[len(prefix) :]
        if name in _RESERVED:
            raise ConfigError(f"Cannot explicitly set the '{name}' claim")
        yield _string(option, name), readers[prefix](option, value)


def _string(option: str, value: str) -> str:
    # Kafka does not escape quotes and control characters correctly, and then fails to parse its own token.
    if _NO_JSON.search(value):
        raise ConfigError(f"{option}: a claim cannot contain a quote or a control character")
    return value


def _number(option: str, value: str) -> float:
    found = value.strip()
    number = float(found.rstrip("fFdD")) if _DOUBLE.fullmatch(found) else math.nan
    if not math.isfinite(number):
        raise ConfigError(f'{option}: For input string: "{value}"')
    return number


def _list(option: str, value: str) -> list[str]:
    """Return the members of a list. Its first character is the delimiter."""
    if len(value) <= 1:
        return []
    delimiter, members = value[0], value[1:]
    if delimiter in _NO_REGEX:
        raise ConfigError(f"{option}: {delimiter} cannot be the delimiter of a list")
    # Java drops empty members at the end; Kafka adds one for all empty members.
    found = members.rstrip(delimiter).split(delimiter)
    if found == [""]:
        raise ConfigError(f"{option}: a list cannot have only empty members")
    if members.startswith(delimiter) or members.endswith(delimiter) or delimiter * 2 in members:
        found.append("")
    return [_string(option, member) for member in found]


def _encoded(part: Mapping[str, object]) -> str:
    return urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=")


def checked_token(value: str, scope_claim: str, sub_claim: str) -> LoginToken:
    """Return an issuer's token with its claims. Raises TokenRejected, without the token in its message."""
    value = value.strip()
    if not value:
        raise TokenRejected("Empty JWT provided; expected three sections (header, payload, and signature)")
    parts = value.split(".")
    if len(parts) != _PARTS or not all(parts):
        raise TokenRejected("Malformed JWT provided; expected three sections (header, payload, and signature)")
    if _TOKEN.fullmatch(value) is None:
        raise TokenRejected("Malformed JWT provided; it contains characters that a token cannot have")
    claims = json_part(parts[1])
    check_scope(claims, scope_claim)
    expires_s, issued_s = seconds(claims, "exp"), seconds(claims, "iat")
    if expires_s is None:
        raise TokenRejected("exp value must be non-null")
    if expires_s < 0:
        raise TokenRejected("exp value must be non-negative")
    principal = text(claims, sub_claim).strip()
    if issued_s is not None and issued_s < 0:
        raise TokenRejected("iat value must be null or non-negative")
    return LoginToken(value, principal, None if issued_s is None else expiry_ms(issued_s), expiry_ms(expires_s))


def refresh_at_ms(token: LoginToken, keys: RefreshKeys, wall_ms: int, chance: float) -> int:
    """Return the time on the wall clock at which a token is replaced (ExpiringCredentialRefreshingLogin.refreshMs).

    `chance` is a random number from 0 to 1, which the jitter spreads.
    """
    if wall_ms > token.expires_ms:
        return wall_ms + RETRY_MS
    share = keys.window_factor + keys.window_jitter * chance
    if wall_ms + 1_000 * (keys.min_period_s + keys.buffer_s) > token.expires_ms:
        at_ms = wall_ms + int((token.expires_ms - wall_ms) * share)
    else:
        begins_ms = wall_ms if token.begins_ms is None else token.begins_ms
        at_ms = begins_ms + int((token.expires_ms - begins_ms) * share)
        latest_ms = token.expires_ms - keys.buffer_s * 1_000
        at_ms = latest_ms if at_ms > latest_ms else max(at_ms, wall_ms + 1_000 * keys.min_period_s)
    return at_ms if at_ms >= wall_ms else wall_ms + RETRY_MS
