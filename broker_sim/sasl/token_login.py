"""A login with OAUTHBEARER: holds the current token, and replaces it before it expires.

| state | entered | token |
|---|---|---|
| not logged in | | none; `start` fails if there is none |
| valid | a token was obtained | the latest one, for new and for renewed connections |
| refresh is due | at `refresh_at_ms` | the former one, until another is obtained |
| refresh failed | no token could be obtained | the former one, also after its expiry; tried again every 10 s |

Source: ExpiringCredentialRefreshingLogin, OAuthBearerRefreshingLogin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.login_keys import TokenLoginKeys, UnsecuredLogin
from zabka.broker_sim.sasl.login_tokens import RETRY_MS, LoginToken, checked_token, refresh_at_ms, unsigned_token
from zabka.broker_sim.sasl.retries import Unavailable
from zabka.broker_sim.sasl.tokens import TokenRejected
from zabka.ensemble.ports import Runtime
from zabka.kafka.sasl_login import AuthenticationFailed, BearerToken

SLEEP_MS_MIN, SLEEP_MS_MAX = 1_000, 3_600_000
"""Minimum time between two refreshes, and maximum time between two looks at the wall clock, which can be set."""


class TokenLogin:
    """The login of a broker or a client. `fetch` returns an issuer's token; it raises Unavailable."""

    def __init__(
        self,
        keys: TokenLoginKeys,
        fetch: Callable[[], Awaitable[str]],
        runtime: Runtime,
        log_problem: Callable[[str], object],
    ) -> None:
        self._keys = keys
        self._fetch = fetch
        self._runtime = runtime
        self._log_problem = log_problem
        self._token: LoginToken | None = None

    async def start(self) -> None:
        """Obtain the first token, and begin to replace it in time. Raises AuthenticationFailed.

        As in Kafka, a first token that has already expired is not replaced.
        """
        if self._token is not None:
            return
        self._token = await self._obtained()
        if self._wall_ms() > self._token.expires_ms:
            self._log_problem(
                f"the token of {self._token.principal} for connections to brokers has already expired, and is not "
                "replaced: compare the clocks of this host and of the issuer"
            )
            return
        self._runtime.spawn(self._refresh(), f"token of {self._token.principal}")

    def current(self) -> BearerToken | None:
        """Return the token for new connections, or None before `start` has obtained one."""
        return None if self._token is None else BearerToken(self._token.value, self._keys.extensions)

    async def _obtained(self) -> LoginToken:
        """Obtain a token. Raises AuthenticationFailed with the reason, without the token."""
        source = self._keys.source
        try:
            if isinstance(source, UnsecuredLogin):
                return unsigned_token(source.options, self._wall_ms())
            return checked_token(await self._fetch(), source.scope_claim, source.sub_claim)
        except Unavailable as failed:
            raise AuthenticationFailed(f"no token from {source!r}: {failed}") from None
        except (TokenRejected, ConfigError) as wrong:
            raise AuthenticationFailed(f"the token cannot be used: {wrong}") from None

    async def _refresh(self) -> None:
        while True:
            assert self._token is not None
            chance = self._runtime.random.random()
            at_ms = refresh_at_ms(self._token, self._keys.refresh, self._wall_ms(), chance)
            await self._sleep_until(max(at_ms, self._wall_ms() + SLEEP_MS_MIN))
            while True:
                try:
                    self._token = await self._obtained()
                    break
                except AuthenticationFailed as failed:
                    self._log_problem(
                        f"the token for connections to brokers cannot be replaced: {failed}. "
                        f"Trying again in {RETRY_MS // 1_000} s"
                    )
                    await self._runtime.sleep(RETRY_MS)

    async def _sleep_until(self, wall_ms: int) -> None:
        while (left_ms := wall_ms - self._wall_ms()) > 0:
            await self._runtime.sleep(min(left_ms, SLEEP_MS_MAX))

    def _wall_ms(self) -> int:
        return self._runtime.now().wall_ms
