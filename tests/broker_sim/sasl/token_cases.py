"""Exchanges of SASL OAUTHBEARER with their outcomes, which are compared with those of Kafka's classes too."""

from __future__ import annotations

import json
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jwt
import jwt.warnings
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

UNSECURED, SIGNED = "unsecured", "signed"
SECRET = b"a secret of thirty-two characters"
REJECTED = 'error {"status":"invalid_token"}'
MALFORMED = "invalid Invalid OAUTHBEARER client first message"


class Case(NamedTuple):
    """An exchange: the kind of tokens, the options of their handler, and the messages at a time in seconds."""

    name: str
    kind: str
    outcome: str
    """Outcome of the last message. `+N` is the lifetime of the token in seconds."""
    messages: Callable[[int], list[bytes]]
    options: Mapping[str, str] = {}


@cache
def private_keys() -> dict[str, Any]:
    """Return the issuer's private keys, by key id."""
    return {
        "rsa": rsa.generate_private_key(65537, 2048),
        "short": rsa.generate_private_key(65537, 1024),
        "ec": ec.generate_private_key(ec.SECP256R1()),
        "ed": ed25519.Ed25519PrivateKey.generate(),
        "other": ec.generate_private_key(ec.SECP256R1()),
    }


@cache
def key_set() -> bytes:
    """Return the issuer's public keys as a JSON Web Key Set. The key `other` is not in it."""
    keys = private_keys()
    rsa_key = json.loads(RSAAlgorithm.to_jwk(keys["rsa"].public_key()))
    ec_key = json.loads(ECAlgorithm.to_jwk(keys["ec"].public_key()))
    members = [
        {"kid": "unknown type", "kty": "new"},
        {**rsa_key, "kid": "rsa", "use": "sig"},
        {**json.loads(RSAAlgorithm.to_jwk(keys["short"].public_key())), "kid": "short"},
        {**ec_key, "kid": "ec", "alg": "ES256"},
        {**ec_key, "kid": "encrypts", "use": "enc"},
        {**json.loads(OKPAlgorithm.to_jwk(keys["ed"].public_key())), "kid": "ed"},
        {"kid": "secret", "kty": "oct", "k": encoded(SECRET)},
    ]
    return json.dumps({"keys": members}).encode()


def encoded(part: bytes | Mapping[str, object]) -> str:
    """Return a part of a token, in Base64."""
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(raw).decode().rstrip("=")


def claims(now_s: int, **changed: Any) -> dict[str, Any]:
    """Return claims of alice. `exp`, `iat` and `nbf` are relative to the time."""
    found = {"sub": "alice", "iat": -10, "exp": 600, **changed}
    times = {name: found[name] + now_s for name in ("exp", "iat", "nbf") if isinstance(found.get(name), int | float)}
    return {name: value for name, value in (found | times).items() if value is not None}


def unsigned(now_s: int, **changed: Any) -> str:
    """Return a token without a signature."""
    return f"{encoded({'alg': 'none'})}.{encoded(claims(now_s, **changed))}."


def signed(now_s: int, key: str = "rsa", algorithm: str = "RS256", key_id: str | None = "", **changed: Any) -> str:
    """Return a token signed with a private key. `key_id` is that of the header; None omits it."""
    key_id = key if key_id == "" else key_id
    headers = {} if key_id is None else {"kid": key_id}
    secret = SECRET if key == "secret" else private_keys()[key]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jwt.warnings.InsecureKeyLengthWarning)
        return jwt.encode(claims(now_s, **changed), secret, algorithm, headers)


def first(token: str, acting_for: str = "", extensions: str = "") -> bytes:
    """Return a client's first message."""
    return f"n,{acting_for},\x01auth=Bearer {token}{extensions}\x01\x01".encode()


def _plain(name: str, outcome: str, options: Mapping[str, str] | None = None, **changed: Any) -> Case:
    return Case(name, UNSECURED, outcome, lambda now_s: [first(unsigned(now_s, **changed))], options or {})


def _signed(name: str, outcome: str, options: Mapping[str, str] | None = None, **changed: Any) -> Case:
    keys = {f"sasl.oauthbearer.{end}": value for end, value in (options or {}).items()}
    return Case(name, SIGNED, outcome, lambda now_s: [first(signed(now_s, **changed))], keys)


def _sent(name: str, outcome: str, *messages: Callable[[int], bytes], kind: str = UNSECURED) -> Case:
    return Case(name, kind, outcome, lambda now_s: [message(now_s) for message in messages])


def _tampered(now_s: int) -> bytes:
    head, _, end = signed(now_s).split(".")
    return first(f"{head}.{encoded(claims(now_s, sub='bob'))}.{end}")


def _confused(now_s: int) -> bytes:
    """Return a token signed with a public key as the secret of a symmetric algorithm."""
    public = RSAAlgorithm.to_jwk(private_keys()["rsa"].public_key()).encode()
    body = f"{encoded({'alg': 'HS256', 'kid': 'rsa'})}.{encoded(claims(now_s))}"
    signature = jwt.get_algorithm_by_name("HS256").sign(body.encode(), public)
    return first(f"{body}.{encoded(signature)}")


SKEW = {"unsecuredValidatorAllowableClockSkewMs": "60000"}
SCOPE = {"unsecuredValidatorRequiredScope": "login write"}
EXCHANGES = [
    _sent("valid", "complete alice +600", lambda now_s: first(unsigned(now_s))),
    _sent("authorization id", "complete alice +600", lambda now_s: first(unsigned(now_s), "a=alice")),
    _sent(
        "other authorization id",
        "refused Authentication failed: Client requested an authorization id (bob) that is different from the token's "
        "principal name (alice)",
        lambda now_s: first(unsigned(now_s), "a=bob"),
    ),
    _sent("extensions", "complete alice +600", lambda now_s: first(unsigned(now_s), "", "\x01a=1 2\x01B=x=y")),
    _sent("extension without a value", MALFORMED, lambda now_s: first(unsigned(now_s), "", "\x01a=")),
    _sent("extension with a digit in its name", MALFORMED, lambda now_s: first(unsigned(now_s), "", "\x01a1=b")),
    _sent("extension with a control character", MALFORMED, lambda now_s: first(unsigned(now_s), "", "\x01a=\x7f")),
    _sent("empty", MALFORMED, lambda now_s: b""),
    _sent("only ^A", MALFORMED, lambda now_s: b"\x01"),
    _sent("no UTF-8", MALFORMED, lambda now_s: b"n,,\x01auth=Bearer \xff\xfe\x01\x01"),
    _sent("channel binding", MALFORMED, lambda now_s: b"p=x,,\x01auth=Bearer a\x01\x01"),
    _sent("no token", f"{MALFORMED}: 'auth' not specified", lambda now_s: b"n,,\x01host=a\x01\x01"),
    _sent("no scheme", f"{MALFORMED}: invalid 'auth' format", lambda now_s: b"n,,\x01auth=abc\x01\x01"),
    _sent("scheme in capitals", "complete alice +600", lambda now_s: first(unsigned(now_s)).replace(b"Bear", b"BEAR")),
    _sent(
        "^A after a rejected token", f"refused {REJECTED[6:]}", lambda now_s: first("a.b."), lambda now_s: b"\x01"
    ),
    _sent(
        "valid token after a rejected one", "complete alice +600", lambda now_s: first("a.b."),
        lambda now_s: first(unsigned(now_s)),
    ),
    _sent("another scheme", "invalid", lambda now_s: first(unsigned(now_s)).replace(b"Bearer", b"Basic")),
    *(
        _sent(name, REJECTED, lambda now_s, token=token: first(token))  # type: ignore[misc]
        for name, token in {
            "one part": "abc", "four parts": "a.b.c.d", "empty part": "a..", "no Base64": "a.b.",
            "no JSON": f"{encoded(b'{')}.{encoded(b'{}')}.", "nested": f"{encoded(b'[' * 9_999)}.e30.",
            "JSON without claims": f"{encoded({'alg': 'none'})}.{encoded(b'{}')}.",
        }.items()
    ),
    _sent("signature", REJECTED, lambda now_s: first(unsigned(now_s) + "c2ln")),
    _sent("algorithm", REJECTED, lambda now_s: first(f"{encoded({'alg': 'None'})}.{encoded(claims(now_s))}.")),
    _sent("signed token", REJECTED, lambda now_s: first(signed(now_s))),
]  # fmt: skip
CLAIMS = [
    _plain("fraction", "complete alice +600", exp=600.4),
    _plain("expired", REJECTED, exp=-1),
    _plain("expired within the skew", "complete alice +-1", SKEW, exp=-1),
    _plain("expired outside the skew", REJECTED, SKEW, exp=-61),
    _plain("no expiry", REJECTED, exp=None),
    _plain("expiry is text", REJECTED, exp="soon"),
    _plain("issued later", REJECTED, iat=60),
    _plain("issued within the skew", "complete alice +600", SKEW, iat=2),
    _plain("not issued", "complete alice +600", iat=None),
    _plain("expiry before issue", REJECTED, SKEW, iat=2, exp=1),
    _plain("no subject", REJECTED, sub=None),
    _plain("blank subject", REJECTED, sub="  "),
    _plain("subject is a number", REJECTED, sub=7),
    _plain("other claim", "complete bob +600", {"unsecuredValidatorPrincipalClaimName": "user"}, user="bob"),
    _plain("missing other claim", REJECTED, {"unsecuredValidatorPrincipalClaimName": "user"}),
    _plain("scope", "complete alice +600", SCOPE, scope=["write", "login", "read"]),
    _plain("missing scope", 'error {"status":"insufficient_scope", "scope":"[login, write]"}', SCOPE, scope=["write"]),
    _plain("scope is one text", 'error {"status":"insufficient_scope", "scope":"[login, write]"}', SCOPE,
           scope="login write"),
    _plain("single scope", "complete alice +600", {"unsecuredValidatorRequiredScope": "login"}, scope="login"),
    _plain("other scope claim", "complete alice +600", {**SCOPE, "unsecuredValidatorScopeClaimName": "scp"},
           scp=["login", "write"]),
    _plain("later not-before time is ignored", "complete alice +600", nbf=300),
]  # fmt: skip
AUDIENCE = {"expected.audience": "kafka,other"}
SIGNATURES = [
    *(
        _signed(f"{key} {algorithm}", "complete alice +600", key=key, algorithm=algorithm)
        for key, algorithm in (
            ("rsa", "RS256"), ("rsa", "PS512"), ("ec", "ES256"), ("ed", "EdDSA"), ("secret", "HS256"),
        )
    ),
    _signed("no key id", "complete alice +600", key_id=None),
    _signed("unknown key id", REJECTED, key_id="new"),
    _signed("key for encryption", REJECTED, key="ec", algorithm="ES256", key_id="encrypts"),
    _signed("short key", REJECTED, key="short"),
    _signed("other issuer's key", REJECTED, key="other", algorithm="ES256", key_id="ec"),
    _signed("key of another type", REJECTED, key="rsa", key_id="ec"),
    _sent("changed claims", REJECTED, _tampered, kind=SIGNED),
    _sent("public key as a secret", REJECTED, _confused, kind=SIGNED),
    _sent("no signature", REJECTED, lambda now_s: first(unsigned(now_s)), kind=SIGNED),
    _sent("empty signature", REJECTED, lambda now_s: first(signed(now_s).rpartition(".")[0] + "."), kind=SIGNED),
    _sent("no algorithm", REJECTED, lambda now_s: first(f"{encoded({'kid': 'rsa'})}.e30.e30"), kind=SIGNED),
    _signed("fraction, signed", "complete alice +600", exp=600.4),
    _signed("expired, signed", REJECTED, exp=-40),
    _signed("expired within the default skew", "complete alice +-5", exp=-5, iat=-10),
    _signed("expired outside the skew, signed", REJECTED, {"clock.skew.seconds": "1"}, exp=-5),
    _signed("no expiry, signed", REJECTED, exp=None),
    _signed("not issued, signed", REJECTED, iat=None),
    _signed("issued later, signed", "complete alice +600", iat=300),
    _signed("expiry before issue, signed", REJECTED, iat=700),
    _signed("not yet valid", REJECTED, nbf=300),
    _signed("valid within the skew", "complete alice +600", nbf=20),
    _signed("no subject, signed", REJECTED, sub=None),
    _signed("blank subject, signed", REJECTED, sub=" "),
    _signed("trimmed subject", "complete alice +600", sub=" alice "),
    _signed("subject claim", "complete bob +600", {"sub.claim.name": "client"}, client="bob"),
    _signed("audience", "complete alice +600", AUDIENCE, aud="kafka"),
    _signed("audiences", "complete alice +600", AUDIENCE, aud=["web", "other"]),
    _signed("other audience", REJECTED, AUDIENCE, aud="web"),
    _signed("no audience", REJECTED, AUDIENCE),
    _signed("unexpected audience", REJECTED, aud="kafka"),
    _signed("audience is a number", REJECTED, AUDIENCE, aud=[1]),
    _signed("issuer", "complete alice +600", {"expected.issuer": "https://id"}, iss="https://id"),
    _signed("other issuer", REJECTED, {"expected.issuer": "https://id"}, iss="https://id/"),
    _signed("no issuer", REJECTED, {"expected.issuer": "https://id"}),
    _signed("any issuer", "complete alice +600", iss="x"),
    _signed("empty scope", REJECTED, scope=""),
    _signed("scopes", "complete alice +600", scope=["a", "b"]),
    _signed("repeated scope", REJECTED, scope=["a", "a "]),
    _signed("scope claim", REJECTED, {"scope.claim.name": "scp"}, scp=["a", "a"], scope="a"),
    _signed("extension", "complete alice +600", scope="a b"),
]  # fmt: skip
CASES = [*EXCHANGES, *CLAIMS, *SIGNATURES]
