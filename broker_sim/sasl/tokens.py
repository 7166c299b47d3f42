"""Verification of the tokens of SASL OAUTHBEARER: its result, its failures, and the parts of a JSON Web Token."""

from __future__ import annotations

import math
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

LIFETIME_MS_MAX = 10**15
"""Later expiry times, which would not fit a response, are as good as endless."""
_STANDARD_TO_URL = str.maketrans("+/", "-_")


class Token(NamedTuple):
    """A verified token: its principal, and its expiry time on the wall clock."""

    principal: str
    expires_ms: int


class TokenRejected(Exception):
    """A token that is not valid. The message has the reason for the log, without the token.

    `status` and `scope` are sent to the client (RFC 7628, section 3.2.2).
    """

    def __init__(self, reason: str, status: str = "invalid_token", scope: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


Verify = Callable[[str], Token]
"""Verifies a token. Raises TokenRejected."""


def json_part(part: str) -> Mapping[str, Any]:
    """Return the JSON object in a part of a token. Raises TokenRejected."""
    try:
        text = urlsafe_b64decode(part.translate(_STANDARD_TO_URL).rstrip("=") + "=" * (-len(part.rstrip("=")) % 4))
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise TokenRejected("a part of the token is not JSON in Base64") from None
    if not isinstance(found, dict):
        raise TokenRejected("a part of the token is not a JSON object")
    return found


def number(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a claim that is a number, or None if it is missing. Raises TokenRejected."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRejected(f"the claim {name} is not a number")
    # An integer of hundreds of digits exceeds the range of a float.
    return float(max(-LIFETIME_MS_MAX, min(value, LIFETIME_MS_MAX)))


def seconds(claims: Mapping[str, Any], name: str) -> int | None:
    """Return a claim that is a time, in whole seconds, or None if it is missing. Raises TokenRejected."""
    value = number(claims, name)
    return None if value is None else math.trunc(value)


def text(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim that is a string with more than white space. Raises TokenRejected."""
    value = claims.get(name)
    if value is None:
        raise TokenRejected(f"Required claim missing: {name}")
    if not isinstance(value, str) or not value.strip():
        raise TokenRejected(f"the claim {name} is not a string with a name")
    return value


def check_scope(claims: Mapping[str, Any], name: str) -> None:
    """Check a scope as Kafka's ClaimValidationUtils does: no empty and no repeated members. Raises TokenRejected."""
    claim = claims.get(name)
    scope = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    if not all(isinstance(item, str) and item.strip() for item in scope):
        raise TokenRejected(f"{name} value must be non-null, non-empty, and non-whitespace")
    if len({item.strip() for item in scope}) < len(scope):
        raise TokenRejected(f"{name} value must not contain duplicates")


def expiry_ms(seconds: float) -> int:
    """Return an expiry time in milliseconds."""
    return min(round(seconds * 1_000), LIFETIME_MS_MAX)
