"""Verification of signed tokens (ValidatorAccessTokenValidator, and jose4j's JwtConsumer). Needs the extra `oauth`.

A key verifies only the algorithms of its own type, so a token cannot select another use of a key, or no signature.
Among several keys that fit, the first one is used, as in jose4j's VerificationJwkSelector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jwt
import msgspec
from jwt.api_jws import PyJWS

from zabka.broker_sim.configs.oauth_keys import SignedTokenKeys
from zabka.broker_sim.sasl.tokens import Token, TokenRejected, check_scope, expiry_ms, json_part, seconds, text

_PARTS = 3
_RSA_BITS_MIN = 2_048
_SHOWN_MAX = 80
_ALGORITHMS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("EC", "secp256k1"): ("ES256K",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
    ("oct", ""): ("HS256", "HS384", "HS512"),
}
"""Algorithms by key type and curve."""


class BadKeySet(Exception):
    """A JSON Web Key Set cannot be used. The message gives the reason, without keys."""


class VerificationKey(NamedTuple):
    """A key of the issuer, with which signatures are verified."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any

    def __repr__(self) -> str:
        """Representation without the key, which is a secret if it is symmetric."""
        return f"VerificationKey({self.key_id}, {self.algorithms})"


def parse_key_set(text: bytes) -> list[VerificationKey]:
    """Return the usable keys of a JSON Web Key Set (RFC 7517). Raises BadKeySet if there is none."""
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise BadKeySet("it is not JSON") from None
    members = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(members, list):
        raise BadKeySet('it has no list "keys"')
    keys = [key for member in members if (key := _parsed(member)) is not None]
    if not keys:
        raise BadKeySet(f"none of its {len(members)} keys can verify a signature")
    return keys


def _parsed(member: object) -> VerificationKey | None:
    """Return a key, or None if it cannot be used, as other keys of the set can be.

    Only the public part of a private key is used.
    """
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    kind = str(member.get("kty"))
    algorithms = _ALGORITHMS.get((kind, "" if kind in ("RSA", "oct") else str(member.get("crv"))), ())
    if "alg" in member:
        algorithms = tuple(name for name in algorithms if name == member["alg"])
    if not algorithms:
        return None
    try:
        key = jwt.PyJWK(member, algorithm=algorithms[0]).key
        key = key.public_key() if hasattr(key, "public_key") else key
    except Exception:  # PyJWK raises several types of errors for a malformed key, such as KeyError.
        return None
    if kind == "RSA" and key.key_size < _RSA_BITS_MIN:
        return None
    key_id = member.get("kid")
    return VerificationKey(key_id if isinstance(key_id, str) else None, algorithms, key)


class SignedTokens:
    """Verifies the tokens of a listener.

    `known` returns the issuer's keys, `missing` is called with the id of an unknown key, and `wall_ms` returns the time
    of the wall clock.
    """

    def __init__(
        self,
        keys: SignedTokenKeys,
        known: Callable[[], Sequence[VerificationKey]],
        missing: Callable[[str], object],
        wall_ms: Callable[[], int],
    ) -> None:
        self._keys = keys
        self._known = known
        self._missing = missing
        self._wall_ms = wall_ms
        self._signatures = PyJWS(options={"enforce_minimum_key_length": True})

    def verify(self, token: str) -> Token:
        """Return the token's principal and expiry time. Raises TokenRejected."""
        parts = token.split(".")
        if len(parts) != _PARTS or not all(parts):
            raise TokenRejected("Malformed JWT provided; expected three sections (header, payload, and signature)")
        key = self._key(json_part(parts[0]))
        try:
            payload = self._signatures.decode(token, key.key, algorithms=list(key.algorithms))
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as wrong:
            raise TokenRejected(f"the signature is not valid: {type(wrong).__name__}") from None
        return self._checked(_claims(payload))

    def _key(self, header: Mapping[str, Any]) -> VerificationKey:
        algorithm, key_id = header.get("alg"), header.get("kid")
        for key in self._known():
            if algorithm in key.algorithms and (key_id is None or key_id == key.key_id):
                return key
        if isinstance(key_id, str):
            self._missing(key_id)
        raise TokenRejected(f"no key of the issuer has the id {_shown(key_id)} and the algorithm {_shown(algorithm)}")

    def _checked(self, claims: Mapping[str, Any]) -> Token:
        keys = self._keys
        expires_s, issued_s, begins_s = (seconds(claims, name) for name in ("exp", "iat", "nbf"))
        if expires_s is None or issued_s is None:
            raise TokenRejected(f"No {'exp' if expires_s is None else 'iat'} claim present.")
        now_s = self._wall_ms() // 1_000
        if now_s - keys.clock_skew_s >= expires_s:
            raise TokenRejected(f"expired at {expires_s} s, the time is {now_s} s")
        if begins_s is not None and now_s + keys.clock_skew_s < begins_s:
            raise TokenRejected(f"not valid before {begins_s} s, the time is {now_s} s")
        if expires_s < max(issued_s, begins_s if begins_s is not None else issued_s):
            raise TokenRejected("the expiry time is before the issue time or the not-before time")
        self._check_audience(claims.get("aud"))
        if keys.issuer and claims.get("iss") != keys.issuer:
            raise TokenRejected("the claim iss is not the expected issuer")
        principal = text(claims, keys.sub_claim).strip()
        check_scope(claims, keys.scope_claim)
        if issued_s < 0:
            raise TokenRejected("the claim iat is negative")
        return Token(principal, expiry_ms(expires_s))

    def _check_audience(self, claim: object) -> None:
        """Check that the token is made for this cluster. As in Kafka, a token for others is rejected in any case."""
        audiences = [claim] if isinstance(claim, str) else [] if claim is None else claim
        if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
            raise TokenRejected("the claim aud is neither a string nor a list of strings")
        if not audiences:
            if self._keys.audiences:
                raise TokenRejected("No aud claim present, and sasl.oauthbearer.expected.audience is set")
        elif self._keys.audiences.isdisjoint(audiences):
            reason = "has no expected audience" if self._keys.audiences else "is present"
            raise TokenRejected(f"the claim aud {reason}: see sasl.oauthbearer.expected.audience")


def _claims(payload: bytes) -> Mapping[str, Any]:
    try:
        claims = msgspec.json.decode(payload)
    except (ValueError, RecursionError):
        raise TokenRejected("the claims are not JSON") from None
    if not isinstance(claims, dict):
        raise TokenRejected("the claims are not a JSON object")
    return claims


def _shown(value: object) -> str:
    return "(none)" if value is None else ascii(value)[:_SHOWN_MAX]
