"""The issuer's public keys of a listener, fetched at the start and at intervals (Kafka's RefreshingHttpsJwks).

A failed fetch is tried again for `sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms`. After that the known keys stay
in use until the next fetch. A token with an unknown key id is rejected, and causes a fetch soon: once a minute for each
id, and once a second in total.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from zabka.broker_sim.configs.oauth_keys import SignedTokenKeys
from zabka.broker_sim.sasl.retries import Unavailable, with_retries
from zabka.ensemble.ports import Runtime

K = TypeVar("K")
KEY_IDS_MAX = 16
KEY_ID_CHARACTERS_MAX = 1_000
SAME_KEY_ID_MS = 60_000
EXPEDITED_MS_MIN = 1_000


class KeyEndpoint(Generic[K]):
    """The keys of one listener. `load` fetches and parses them once; it raises Unavailable."""

    def __init__(
        self,
        keys: SignedTokenKeys,
        load: Callable[[], Awaitable[Sequence[K]]],
        runtime: Runtime,
        log_problem: Callable[[str], object],
    ) -> None:
        self._keys = keys
        self._load = load
        self._runtime = runtime
        self._log_problem = log_problem
        self._known: Sequence[K] = ()
        self._is_loading = False
        self._tried_ms: dict[str, int] = {}
        """Time of the last fetch for each unknown key id, the latest one at the end."""
        self._expedited_ms: int | None = None

    def known(self) -> Sequence[K]:
        """Return the keys of the last successful fetch."""
        return self._known

    async def start(self) -> None:
        """Fetch the keys, and fetch them again at intervals. A file is read only once.

        Raises Unavailable if the first fetch fails.
        """
        self._known = await self._loaded()
        if not self._keys.file:
            self._runtime.spawn(self._refresh_at_intervals(), f"keys of {self._keys.url}")

    def missing(self, key_id: str) -> None:
        """Fetch the keys soon, because a token names a key that is not known."""
        now_ms = self._runtime.now().mono_ms
        if self._keys.file or self._is_loading or len(key_id) > KEY_ID_CHARACTERS_MAX:
            return
        if self._expedited_ms is not None and now_ms - self._expedited_ms < EXPEDITED_MS_MIN:
            return
        tried_ms = self._tried_ms.pop(key_id, None)
        is_due = tried_ms is None or now_ms - tried_ms >= SAME_KEY_ID_MS
        self._tried_ms[key_id] = now_ms if is_due or tried_ms is None else tried_ms
        if len(self._tried_ms) > KEY_IDS_MAX:
            del self._tried_ms[next(iter(self._tried_ms))]
        if is_due:
            self._expedited_ms = now_ms
            self._runtime.spawn(self._refresh(), f"key of {self._keys.url}")

    async def _refresh_at_intervals(self) -> None:
        while True:
            await self._runtime.sleep(self._keys.refresh_ms)
            await self._refresh()

    async def _refresh(self) -> None:
        if self._is_loading:
            return
        try:
            self._known = await self._loaded()
        except Unavailable as failed:
            self._log_kept(str(failed))
        except Exception as failed:  # An unexpected response of the issuer must not end the broker.
            self._log_kept(f"the keys that verify tokens cannot be read from {self._keys.url}: {failed!r}")

    def _log_kept(self, problem: str) -> None:
        self._log_problem(f"{problem}. The {len(self._known)} known keys stay in use")

    async def _loaded(self) -> Sequence[K]:
        """Fetch the keys. Raises Unavailable."""
        self._is_loading = True
        try:
            return await with_retries(self._load, self._runtime, self._keys.backoff_ms, self._keys.backoff_ms_max)
        except Unavailable as failed:
            raise Unavailable(f"the keys that verify tokens cannot be read from {self._keys.url}: {failed}") from None
        finally:
            self._is_loading = False
