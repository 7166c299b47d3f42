"""Fetches an access token with the client credentials grant (RFC 6749, section 4.4), or reads it from a file. Does I/O.

Source: HttpAccessTokenRetriever, FileTokenRetriever. The issuer's response and the client's secret are in no message.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote_plus

import msgspec

from zabka.broker_sim.configs.login_keys import FetchedLogin, TokenLoginKeys, UnsecuredLogin
from zabka.broker_sim.sasl.http_exchange import Request, Response, exchange, read_file, trusting
from zabka.broker_sim.sasl.retries import Unavailable, with_retries
from zabka.broker_sim.sasl.token_login import TokenLogin
from zabka.ensemble.ports import Runtime

FINAL_STATUSES = frozenset((*range(400, 408), *range(409, 416), 501, 505))
"""HTTP statuses after which another try is useless, as in Kafka."""
_ERRORS = (
    "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
    "invalid_scope", "server_error", "temporarily_unavailable",
)  # fmt: skip
"""Error codes of RFC 6749 that are shown. Other text of the issuer could repeat a secret."""


class TokenDownload:
    """Reads the tokens of one login. Raises ConfigError if the trust store cannot be used.

    As in Kafka, a file is read only once.
    """

    def __init__(self, keys: FetchedLogin, runtime: Runtime) -> None:
        self._keys = keys
        self._runtime = runtime
        self._context = trusting(keys.url, keys.trust)
        self._of_file = ""

    async def read(self) -> str:
        """Return a token, which is not verified. Raises Unavailable."""
        keys = self._keys
        if not keys.file:
            response = await with_retries(self._fetch, self._runtime, keys.backoff_ms, keys.backoff_ms_max)
            return _access_token(response)
        if not self._of_file:
            self._of_file = read_file(Path(keys.file)).decode(errors="replace")
        return self._of_file

    async def _fetch(self) -> bytes:
        keys = self._keys
        connect_s, read_s = _seconds(keys.connect_timeout_ms), _seconds(keys.read_timeout_ms)
        response = await exchange(token_request(keys), self._context, connect_s, read_s)
        if response.status not in (200, 201):
            raise Unavailable(_problem(response), is_final=response.status in FINAL_STATUSES)
        if not response.body:
            raise Unavailable(f"HTTP status {response.status} with an empty response")
        return response.body


def open_login(keys: TokenLoginKeys, runtime: Runtime, log_problem: Callable[[str], object]) -> TokenLogin:
    """Return a login, not started yet. Raises ConfigError if its trust store cannot be used."""
    fetch = _no_issuer if isinstance(keys.source, UnsecuredLogin) else TokenDownload(keys.source, runtime).read
    return TokenLogin(keys, fetch, runtime, log_problem)


async def _no_issuer() -> str:
    raise Unavailable("unsigned tokens have no issuer", is_final=True)


def _seconds(timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1_000


def token_request(keys: FetchedLogin) -> Request:
    """Return the request for a token: the id and secret as Basic authentication, and the grant as a form."""
    encode = quote_plus if keys.urlencodes else str
    credentials = f"{encode(keys.client_id)}:{encode(keys.client_secret)}"
    scope = f"&scope={quote_plus(keys.scope)}" if keys.scope else ""
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {b64encode(credentials.encode()).decode()}",
        "Cache-Control": "no-cache",
    }
    return Request(keys.url, headers, f"grant_type=client_credentials{scope}".encode())


def _problem(response: Response) -> str:
    """Return the status of a failure, with the error code if it is a known one."""
    try:
        found = msgspec.json.decode(response.body)
    except (ValueError, RecursionError):
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    redirect = " (a redirect, which is not followed with a secret)" if response.location else ""
    return f"HTTP status {response.status}{f' {error}' if error in _ERRORS else ''}{redirect}"


def _access_token(body: bytes) -> str:
    """Return the token of a response. Raises Unavailable."""
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise Unavailable("the response is not JSON", is_final=True) from None
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str) or not token.strip():
        raise Unavailable("the response has no access_token", is_final=True)
    return token
