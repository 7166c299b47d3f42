"""Verification of unsigned tokens, for tests only (OAuthBearerUnsecuredValidatorCallbackHandler).

Any client can make such a token for any user. The algorithm must be `none`, and the signature empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zabka.broker_sim.configs.oauth_keys import UnsecuredTokenKeys
from zabka.broker_sim.sasl.tokens import Token, TokenRejected, expiry_ms, json_part, number, text

_PARTS = 3


class UnsecuredTokens:
    """Verifies the tokens of a listener. `wall_ms` returns the time of the wall clock."""

    def __init__(self, keys: UnsecuredTokenKeys, wall_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._wall_ms = wall_ms

    def verify(self, token: str) -> Token:
        """Return the token's principal and expiry time. Raises TokenRejected."""
        claims = _claims(token)
        expires_s = number(claims, "exp")
        if expires_s is None:
            raise TokenRejected("Required claim missing: exp")
        principal = text(claims, self._keys.principal_claim)
        self._check_times(expires_s, number(claims, "iat"))
        self._check_scope(claims.get(self._keys.scope_claim))
        return Token(principal, expiry_ms(expires_s))

    def _check_times(self, expires_s: float, issued_s: float | None) -> None:
        now_ms, skew_ms = self._wall_ms(), self._keys.clock_skew_ms
        if issued_s is not None and issued_s * 1_000 > now_ms + skew_ms:
            raise TokenRejected(f"issued in the future: at {issued_s:.3f} s, the time is {now_ms} ms")
        if now_ms - skew_ms >= expires_s * 1_000:
            raise TokenRejected(f"expired at {expires_s:.3f} s, the time is {now_ms} ms")
        if issued_s is not None and expires_s <= issued_s:
            raise TokenRejected("the expiry time is not after the issue time")

    def _check_scope(self, claim: object) -> None:
        if claim is not None and not isinstance(claim, str | list):
            raise TokenRejected(f"the claim {self._keys.scope_claim} is neither a string nor a list")
        # As in Kafka, a string is one scope, also if it contains spaces.
        items = [claim] if isinstance(claim, str) else claim or []
        scope = {str(item).strip() for item in items}
        required = self._keys.required_scope
        if not scope.issuperset(required):
            raise TokenRejected("a required scope is missing", "insufficient_scope", f"[{', '.join(required)}]")


def _claims(token: str) -> Mapping[str, Any]:
    parts = token.split(".")
    if len(parts) != _PARTS or not parts[0] or not parts[1]:
        raise TokenRejected("the token does not have three parts")
    header, claims = json_part(parts[0]), json_part(parts[1])
    if header.get("alg") != "none":
        raise TokenRejected("the token's algorithm is not none, and this listener verifies no signatures")
    if parts[2]:
        raise TokenRejected("the token has a signature, and this listener verifies no signatures")
    return claims
