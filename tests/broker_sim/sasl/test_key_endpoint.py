"""The issuer's keys: fetches on a virtual clock, and downloads over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trustme

from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.oauth_keys import SignedTokenKeys
from zabka.broker_sim.sasl.key_download import KeyDownload
from zabka.broker_sim.sasl.key_endpoint import KeyEndpoint
from zabka.broker_sim.sasl.retries import Unavailable
from zabka.broker_sim.sasl.token_verifiers import token_verifier
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.simulation.engine.scheduler import Scheduler

KEYS = SignedTokenKeys("http://id/keys", frozenset(), "", 30, "scope", "sub", 3_600_000, 100, 10_000, {})


class Issuer:
    """An issuer with a clock. `results` are those of the next fetches; the last one repeats."""

    def __init__(self, *results: str | Exception | None, keys: SignedTokenKeys = KEYS) -> None:
        self.scheduler = Scheduler()
        self.runtime = SimRuntime(self.scheduler, Random(0))
        self.results = list(results)
        self.fetched_ms: list[int] = []
        self.log: list[str] = []
        self.endpoint = KeyEndpoint(keys, self._load, self.runtime, self.log.append)
        self.started = self.runtime.spawn(self.endpoint.start(), "start")

    async def _load(self) -> Sequence[str]:
        self.fetched_ms.append(self.scheduler.now_us // 1_000)
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if result is None:
            raise Unavailable("refused")
        if isinstance(result, Exception):
            raise result
        return [result]

    def wait(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1_000)


def test_keys_are_fetched_again_at_the_interval() -> None:
    issuer = Issuer("one", "two", keys=KEYS._replace(refresh_ms=5_000))
    issuer.wait(4_999)
    assert issuer.endpoint.known() == ["one"]
    issuer.wait(1)
    assert issuer.endpoint.known() == ["two"]
    issuer.wait(5_000)
    assert issuer.fetched_ms == [0, 5_000, 10_000] and issuer.log == []


def test_failed_fetch_is_tried_again_and_keeps_the_known_keys() -> None:
    issuer = Issuer("one", None, keys=KEYS._replace(refresh_ms=5_000, backoff_ms=100, backoff_ms_max=1_000))
    issuer.wait(9_000)
    assert issuer.endpoint.known() == ["one"]
    assert issuer.fetched_ms == [0, 5_000, 5_100, 5_300, 5_700, 6_000]
    failure = "the keys that verify tokens cannot be read from http://id/keys: refused (tried 5 times)"
    assert issuer.log == [f"{failure}. The 1 known keys stay in use"]


def test_unexpected_error_of_a_fetch_keeps_the_known_keys() -> None:
    issuer = Issuer("one", KeyError("k"), "two", keys=KEYS._replace(refresh_ms=5_000))
    issuer.wait(9_999)
    assert issuer.endpoint.known() == ["one"]
    failure = "the keys that verify tokens cannot be read from http://id/keys: KeyError('k')"
    assert issuer.log == [f"{failure}. The 1 known keys stay in use"]
    issuer.wait(1)
    assert issuer.endpoint.known() == ["two"]


def test_first_fetch_is_tried_again_before_the_start_fails() -> None:
    issuer = Issuer(None, None, "one")
    issuer.wait(300)
    assert issuer.fetched_ms == [0, 100, 300] and issuer.endpoint.known() == ["one"]
    failing = Issuer(None, keys=KEYS._replace(backoff_ms=0))
    with pytest.raises(AssertionError, match=r"task start failed: Unavailable\(.* from http://id/keys: refused'\)$"):
        failing.wait(1)


def test_unknown_key_ids_cause_a_bounded_number_of_fetches() -> None:
    issuer = Issuer("one")
    issuer.wait(1_000)
    for number in range(100):
        issuer.endpoint.missing(f"id {number}")
        issuer.wait(100)
    assert issuer.fetched_ms == [0, *range(1_000, 11_000, 1_000)]
    issuer.endpoint.missing("id 90")
    issuer.endpoint.missing("x" * 1_001)
    issuer.wait(59_000)
    assert len(issuer.fetched_ms) == 11
    issuer.endpoint.missing("id 90")
    issuer.wait(1)
    assert issuer.fetched_ms[11:] == [70_000]


# ---- downloads ---------------------------------------------------------------------------------------------------


def download(
    answer: Callable[[str, asyncio.StreamWriter], Awaitable[None]],
    limit_s: float = 20.0,
    tls: ssl.SSLContext | None = None,
    trust: dict[str, str] | None = None,
) -> bytes:
    """Download from a server that answers each path."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"\r\nhost: 127.0.0.1:" in head.lower()
        try:
            await answer(head.split()[1].decode(), writer)
        finally:
            writer.close()

    @asynccontextmanager
    async def serving() -> AsyncIterator[int]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
            yield server.sockets[0].getsockname()[1]

    async def main() -> bytes:
        async with serving() as port:
            scheme = "http" if tls is None else "https"
            keys = KEYS._replace(url=f"{scheme}://127.0.0.1:{port}/keys?v=1", trust=trust or {})
            return await KeyDownload(keys, limit_s).read()

    return asyncio.run(asyncio.wait_for(main(), 30))


def sends(**answers: bytes) -> Callable[[str, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 " + answers[path.partition("?")[0].strip("/")])

    return answer


BODY = b"200 OK\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b"200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
MOVED = b"302 Found\r\nlocation: "


def test_keys_are_downloaded_also_in_chunks_and_after_redirects() -> None:
    for answers in ({"keys": BODY}, {"keys": CHUNKED}, {"keys": MOVED + b"/new\r\n\r\n", "new": BODY}):
        assert download(sends(**answers)) == b"{}"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"404 Not Found\r\ncontent-length: 0\r\n\r\n", "HTTP status 404"),
        (b"200 OK\r\ncontent-length: 9\r\n\r\n{}", "peer closed connection without sending complete message body"),
        (b"", "peer unexpectedly closed connection"),
        (b"200 OK\r\n\r\n" + bytes(2_000_000), "a response of more than 1048576 bytes"),
        (MOVED + b"/keys\r\n\r\n", "more than 5 redirects"),
        (MOVED + b"file:///etc/passwd\r\n\r\n", "a redirect to another protocol"),
    ],
)
def test_unusable_response_gives_its_reason(answer: bytes, reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        download(sends(keys=answer))


def test_download_without_an_end_is_stopped() -> None:
    async def drips(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await writer.drain()
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.01)

    with pytest.raises(Unavailable, match=r"no complete response within 0\.2 s"):
        download(drips, limit_s=0.2)


async def _verifier(keys: SignedTokenKeys) -> Any:
    log: list[str] = []
    return await token_verifier(keys, "CLIENTS", AsyncioRuntime(asyncio.get_running_loop()), log.append)


def test_start_without_keys_gives_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"keys": []}')
    reasons = {
        (tmp_path / "missing.json").as_uri(): "No such file or directory",
        (tmp_path / "none.json").as_uri(): "none of its 0 keys can verify a signature",
        "http://127.0.0.1:1/keys": "Connect call failed",
    }
    for url, reason in reasons.items():
        with pytest.raises(ConfigError, match=f"listener CLIENTS: the keys .* cannot be read from {url}: .*{reason}"):
            asyncio.run(_verifier(KEYS._replace(url=url, backoff_ms=0)))


def test_endpoint_certificate_is_verified_with_the_trust_store(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    for name, each in (("trusted", authority), ("other", other)):
        each.cert_pem.write_to_path(tmp_path / f"{name}.pem")
    answer = sends(keys=BODY)
    assert download(answer, tls=tls, trust={"ssl.truststore.location": str(tmp_path / "trusted.pem")}) == b"{}"
    for trust in ({"ssl.truststore.location": str(tmp_path / "other.pem")}, {}):
        with pytest.raises(Unavailable, match="certificate verify failed"):
            download(answer, tls=tls, trust=trust)
    for location, reason in (("/ca.jks", "JKS stores are not supported"), ("/no.pem", "No such file")):
        with pytest.raises(ConfigError, match=f"ssl.truststore.location={location}: .*{reason}"):
            KeyDownload(KEYS._replace(url="https://id/keys", trust={"ssl.truststore.location": location}))
