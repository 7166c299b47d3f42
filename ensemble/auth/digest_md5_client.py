"""Client side of SASL DIGEST-MD5 (RFC 2831), for servers of `zabka.ensemble.auth.digest_md5` and ZooKeeper."""

from __future__ import annotations

from hmac import compare_digest

from zabka.ensemble.auth.digest_md5 import CLIENTS, NONCE_COUNT, SaslError, SaslService, directives, proof, secret_of

MAX_BUFFER = 65536


class DigestMd5Client:
    """One negotiation: `respond` to the server's challenge, then `check` that the server knows the password.

    `cnonce` must be unpredictable.
    """

    __slots__ = ("_cnonce", "_expected", "_password", "_service", "_user")

    def __init__(self, user: str, password: str, cnonce: str, service: SaslService = CLIENTS) -> None:
        self._user = user
        self._password = password
        self._cnonce = cnonce
        self._service = service
        self._expected = b""

    def respond(self, challenge: bytes) -> bytes:
        """Return the digest-response. Raises SaslError if the server requires something that is not supported."""
        given = directives(challenge)
        nonce, realm = given.get("nonce"), given.get("realm", self._service.server_name)
        if nonce is None or given.get("algorithm") != "md5-sess":
            raise SaslError("no DIGEST-MD5 challenge")
        if "auth" not in given.get("qop", "auth").replace(" ", "").split(","):
            raise SaslError("the server demands more than authentication")
        digest_uri = "/".join(self._service)
        secret = secret_of(self._user, realm, self._password, nonce, self._cnonce, None)
        response = proof(secret, nonce, self._cnonce, f"AUTHENTICATE:{digest_uri}").decode()
        self._expected = b"rspauth=" + proof(secret, nonce, self._cnonce, f":{digest_uri}")
        fields = (
            "charset=utf-8", f"username={_quoted(self._user)}", f"realm={_quoted(realm)}", f"nonce={_quoted(nonce)}",
            f"nc={NONCE_COUNT}", f"cnonce={_quoted(self._cnonce)}", f"digest-uri={_quoted(digest_uri)}",
            f"maxbuf={MAX_BUFFER}", f"response={response}", "qop=auth",
        )  # fmt: skip
        return ",".join(fields).encode()

    def check(self, answer: bytes) -> None:
        """Raise SaslError if the server's last message shows that it does not know the password."""
        if not compare_digest(answer, self._expected):
            raise SaslError("the server does not know the password")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
