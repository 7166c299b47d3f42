"""Logins with OAUTHBEARER: the token, its replacement on a virtual clock, and requests to an issuer."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trustme

from tests.broker_sim.sasl.login_cases import CASES, NOW_MS, LoginCase, contents, login_keys, outcome
from tests.broker_sim.sasl.token_cases import SIGNED, UNSECURED, encoded
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.login_keys import FetchedLogin, RefreshKeys, TokenLoginKeys
from zabka.broker_sim.sasl.http_exchange import BODY_BYTES_MAX
from zabka.broker_sim.sasl.login_tokens import LoginToken, refresh_at_ms
from zabka.broker_sim.sasl.retries import Unavailable
from zabka.broker_sim.sasl.token_download import TokenDownload
from zabka.broker_sim.sasl.token_login import TokenLogin
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.simulation.engine.scheduler import Scheduler

OPTIONS = {"clientId": "broker-1", "clientSecret": "hidden-secret"}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_login_gives_kafkas_token_or_is_refused(case: LoginCase) -> None:
    """The same outcomes as those of Kafka's classes: see tests/interop/test_login_answers.py."""
    found = outcome(case)
    if case.expected is None:
        assert found is None
        return
    assert found is not None
    message, token = found
    assert contents(message) == (case.expected, case.extensions)
    assert token.value not in repr(token)
    if case.kind == UNSECURED:
        assert (token.begins_ms, token.expires_ms) == (NOW_MS, NOW_MS + case.expected["lifetime"] * 1_000)


@pytest.mark.parametrize(
    ("keys", "chance", "expected_s"),
    [
        (RefreshKeys(300, 60, 0.8, 0.05), 0.0, 8_000),
        (RefreshKeys(300, 60, 0.8, 0.05), 0.5, 8_250),
        (RefreshKeys(300, 60, 0.9, 0.0), 0.5, 9_000),
        (RefreshKeys(3_000, 60, 0.8, 0.0), 0.5, 7_000),
        (RefreshKeys(0, 9_500, 0.8, 0.0), 0.5, 9_500),
        (RefreshKeys(9_000, 2_000, 0.5, 0.0), 0.5, 5_000),
    ],
)
def test_refresh_keys_set_when_a_token_is_replaced(keys: RefreshKeys, chance: float, expected_s: int) -> None:
    assert refresh_at_ms(LoginToken("", "a", 0, 10_000_000), keys, 0, chance) == expected_s * 1_000


def issued(number: int, expires_s: int) -> str:
    return f"{encoded({'alg': 'x'})}.{encoded({'sub': f'broker {number}', 'exp': expires_s})}.c2ln"


class World:
    """A login with a clock. Each result is the lifetime in seconds of a token, or None for a failure."""

    def __init__(self, *results: int | None, keys: TokenLoginKeys | None = None) -> None:
        self.scheduler = Scheduler()
        self.runtime = SimRuntime(self.scheduler, Random(0))
        self.results = list(results)
        self.asked_s: list[int] = []
        self.log: list[str] = []
        keys = keys or login_keys(SIGNED, {}, **{"sasl.login.refresh.window.jitter": 0.0})
        self.login = TokenLogin(keys, self._fetch, self.runtime, self.log.append)
        self.runtime.spawn(self.login.start(), "start")
        self.wait(0)

    async def _fetch(self) -> str:
        now_s = self.runtime.now().wall_ms // 1_000
        self.asked_s.append(self.scheduler.now_us // 1_000_000)
        result = self.results.pop(0)
        if result is None:
            raise Unavailable("HTTP status 503")
        return issued(len(self.asked_s), now_s + result)

    def wait(self, seconds: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + seconds * 1_000_000)

    def number(self) -> int:
        """Return the number of the request that gave the current token."""
        token = self.login.current()
        assert token is not None
        (claims, _) = contents(f"n,,\x01auth=Bearer {token.token}\x01\x01".encode())
        return int(str(claims["sub"]).split()[1])


def test_token_is_replaced_before_it_expires() -> None:
    world = World(10_000, 10_000, 10_000)
    world.wait(7_999)
    assert world.number() == 1
    world.wait(2)
    assert world.number() == 2
    world.wait(8_001)
    assert world.asked_s == [0, 8_000, 16_000] and world.log == []


def test_failed_refresh_keeps_the_token_and_is_tried_again() -> None:
    world = World(10_000, None, None, 10_000)
    world.wait(8_019)
    assert world.number() == 1 and world.asked_s == [0, 8_000, 8_010]
    world.wait(2)
    assert world.number() == 4 and world.asked_s[3] == 8_020
    problem = "the token for connections to brokers cannot be replaced: no token from file:/token: HTTP status 503"
    assert world.log == [f"{problem}. Trying again in 10 s"] * 2


def test_failed_first_login_and_expired_first_token_end_it() -> None:
    with pytest.raises(AssertionError, match=r"AuthenticationFailed\('no token from file:/token: HTTP status 503'\)"):
        World(None)
    world = World(-1)
    world.wait(100_000)
    assert world.asked_s == [0] and world.log[0].startswith("the token of broker 1 for connections to brokers has alr")


def test_token_that_expires_at_once_is_replaced_once_a_second() -> None:
    keys = login_keys(
        UNSECURED,
        {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "0"},
        **{"sasl.login.refresh.min.period.seconds": 0, "sasl.login.refresh.buffer.seconds": 0},
    )
    world = World(keys=keys)
    tokens = set()
    for _ in range(20):
        world.wait(1)
        tokens.add(str(world.login.current()[0]))  # type: ignore[index]
    assert 2 <= len(tokens) <= 21


# ---- requests to an issuer ---------------------------------------------------------------------------------------


def keys_of(url: str, **changed: Any) -> FetchedLogin:
    source = login_keys(SIGNED, OPTIONS, **{"sasl.oauthbearer.token.endpoint.url": url}).source
    assert isinstance(source, FetchedLogin)
    return source._replace(**{"backoff_ms": 0, "backoff_ms_max": 0, **changed})


def fetch(answer: Callable[[asyncio.StreamWriter], object], tls: ssl.SSLContext | None = None, **changed: Any) -> str:
    """Fetch a token from a server that answers each request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"grant_type=client_credentials")
            answer(writer)
            # A client that waits for the response closes the connection itself.
            if tls is None:
                await reader.read()
        finally:
            writer.close()

    async def main() -> str:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
            port = server.sockets[0].getsockname()[1]
            keys = keys_of(f"http{'s' if tls else ''}://127.0.0.1:{port}/token", **changed)
            return await TokenDownload(keys, AsyncioRuntime(asyncio.get_running_loop())).read()

    return asyncio.run(main())


def sends(status: int, body: str = "", *headers: str) -> Callable[[asyncio.StreamWriter], object]:
    head = "".join(f"{line}\r\n" for line in (f"Content-Length: {len(body)}", *headers))
    return lambda writer: writer.write(f"HTTP/1.1 {status} x\r\n{head}\r\n{body}".encode())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (sends(401, '{"error": "invalid_client"}'), "HTTP status 401 invalid_client"),
        (sends(400, '{"error": "hidden-secret", "error_description": "hidden-secret"}'), "HTTP status 400"),
        (sends(503, "hidden-secret"), "HTTP status 503"),
        (
            sends(302, "", "Location: http://127.0.0.1/hidden-secret"),
            "HTTP status 302 (a redirect, which is not followed with a secret)",
        ),
        (sends(200, "hidden-secret"), "the response is not JSON"),
        (sends(200, '{"access_token": ["hidden-secret"]}'), "the response has no access_token"),
        (sends(200, "x" * (BODY_BYTES_MAX + 1)), f"a response of more than {BODY_BYTES_MAX} bytes"),
        (lambda writer: None, "no response within 0.1 s"),
    ],
)
def test_failed_request_has_a_reason_without_secrets(answer: Any, reason: str) -> None:
    with pytest.raises(Unavailable) as failed:
        fetch(answer, read_timeout_ms=100)
    assert str(failed.value) == reason


def test_failure_that_lasts_is_not_tried_again() -> None:
    for status, expected in ((503, range(2, 20)), (401, range(1, 2))):
        answers: list[int] = []

        def refuse(writer: asyncio.StreamWriter, status: int = status, answers: list[int] = answers) -> None:
            answers.append(status)
            sends(status)(writer)

        with pytest.raises(Unavailable):
            fetch(refuse, backoff_ms=10, backoff_ms_max=100)
        assert len(answers) in expected


def test_connection_timeout_limits_the_handshake() -> None:
    async def main() -> None:
        with pytest.raises(Unavailable, match=r"no connection within 0\.1 s"):
            await TokenDownload(keys, AsyncioRuntime(asyncio.get_running_loop())).read()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        keys = keys_of(f"https://127.0.0.1:{silent.getsockname()[1]}/token", connect_timeout_ms=100)
        asyncio.run(main())


def test_issuer_over_https_is_trusted_by_the_trust_store(tmp_path: Path) -> None:
    """Refused certificates: see test_key_endpoint.py."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "trusted.pem")
    answer = sends(200, json.dumps({"access_token": "a.b.c"}))
    assert fetch(answer, tls, trust={"ssl.truststore.location": str(tmp_path / "trusted.pem")}) == "a.b.c"
    with pytest.raises(ConfigError, match=r"/no\.pem: .*No such file"):
        TokenDownload(
            keys_of("https://id/", trust={"ssl.truststore.location": "/no.pem"}), SimRuntime(Scheduler(), Random(0))
        )


def test_token_file_is_read_once(tmp_path: Path) -> None:
    """As in Kafka: a changed file has an effect after a restart."""
    path = tmp_path / "a token"
    path.write_text("a.b.c")

    async def main() -> list[str]:
        download = TokenDownload(keys_of(path.as_uri()), AsyncioRuntime(asyncio.get_running_loop()))
        first = await download.read()
        path.write_text("d.e.f")
        return [first, await download.read()]

    assert asyncio.run(main()) == ["a.b.c"] * 2
    path.unlink()
    with pytest.raises(Unavailable, match="No such file"):
        asyncio.run(main())


def test_secrets_are_in_no_representation() -> None:
    keys = login_keys(SIGNED, {**OPTIONS, "extension_a": "hidden-secret"})
    assert "hidden" not in repr(keys) + repr(keys.source)
