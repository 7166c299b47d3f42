"""Reads the issuer's keys from a file or over HTTP, without blocking the event loop. Does I/O."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from zabka.broker_sim.configs.oauth_keys import SignedTokenKeys
from zabka.broker_sim.sasl.http_exchange import Request, exchange, read_file, trusting
from zabka.broker_sim.sasl.retries import Unavailable

DOWNLOAD_S_MAX = 20.0
REDIRECTS_MAX = 5


class KeyDownload:
    """Reads the keys of one listener. Raises ConfigError if the trust store cannot be used."""

    def __init__(self, keys: SignedTokenKeys, limit_s: float = DOWNLOAD_S_MAX) -> None:
        self._keys = keys
        self._limit_s = limit_s
        self._context = trusting(keys.url, keys.trust)

    async def read(self) -> bytes:
        """Return the content of the key set. Raises Unavailable."""
        if self._keys.file:
            return read_file(Path(self._keys.file))
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._follow(self._keys.url)
        except TimeoutError:
            raise Unavailable(f"no complete response within {self._limit_s:g} s") from None

    async def _follow(self, url: str) -> bytes:
        """Follow redirects with the same protocol, as Java does."""
        for _ in range(REDIRECTS_MAX):
            response = await exchange(Request(url, {"Accept": "application/json, */*"}), self._context)
            if not response.location:
                if response.status != 200:
                    raise Unavailable(f"HTTP status {response.status}")
                return response.body
            target = urljoin(url, response.location)
            if urlsplit(target).scheme != urlsplit(url).scheme:
                raise Unavailable("a redirect to another protocol")
            url = target
        raise Unavailable(f"more than {REDIRECTS_MAX} redirects")
