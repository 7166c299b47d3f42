"""Our logins with OAUTHBEARER, and those of Kafka's classes: equal tokens, messages, requests and refresh times."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import pytest

from tests.broker_sim.sasl.login_cases import CASES, CLAIMS, contents, login_keys, outcome
from tests.broker_sim.sasl.token_cases import SIGNED, encoded
from tests.interop.kafka_jars import classpath
from zabka.broker_sim.configs.login_keys import FetchedLogin, RefreshKeys
from zabka.broker_sim.sasl.login_tokens import LoginToken, refresh_at_ms
from zabka.broker_sim.sasl.retries import Unavailable
from zabka.broker_sim.sasl.token_download import TokenDownload
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime

pytestmark = pytest.mark.timeout(300)
ANSWERS = Path(__file__).parent / "kafka_jars" / "LoginAnswers.java"
TOKEN = f"{encoded({'alg': 'x'})}.{encoded(CLAIMS)}.c2ln"
RESPONSES = {
    "/token": (200, f'{{"access_token": "{TOKEN}"}}'),
    "/created": (201, f'{{"access_token": " {TOKEN} ", "expires_in": 1}}'),
    "/none": (200, '{"token": "x"}'),
    "/number": (200, '{"access_token": 1}'),
    "/text": (200, "no JSON"),
    "/empty": (200, ""),
    "/refused": (401, '{"error": "invalid_client", "error_description": "x"}'),
    "/missing": (404, ""),
    "/busy": (503, "later"),
    "/strange": (418, ""),
}
OPTIONS = {"clientId": " a:b+ä ", "clientSecret": "s c/?", "scope": " read write "}
URLENCODE = "sasl.oauthbearer.header.urlencode"
SHOWN = ("Authorization", "Accept", "Cache-Control", "Content-Type", "Content-Length")


def kafkas(lines: list[str]) -> list[str]:
    """Return the answers of Kafka's classes."""
    done = subprocess.run(
        ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath(), str(ANSWERS)],
        input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    answers = [line.removeprefix("answer ") for line in done.stdout.splitlines() if line.startswith("answer ")]
    assert len(answers) == len(lines), done.stderr[-3000:]
    return answers


def line(kind: str, options: Mapping[str, str], configs: Mapping[str, str]) -> str:
    return "\t".join((kind, *("\x1f".join(map("=".join, each.items())) for each in (options, configs))))


def test_login_tokens_equal_those_of_kafkas_classes(tmp_path: Path) -> None:
    lines = []
    for number, case in enumerate(CASES):
        path = tmp_path / str(number)
        path.write_text(case.token)
        url = {"sasl.oauthbearer.token.endpoint.url": path.as_uri()} if case.kind == SIGNED else {}
        lines.append(line(case.kind, case.options, url))
    wrong = {}
    for case, answer in zip(CASES, kafkas(lines), strict=True):
        ours = outcome(case)
        kind, *parts = answer.split(" ")
        if kind == "refused" or ours is None:
            if kind != "refused" or ours is not None:
                wrong[case.name] = answer
            continue
        message, token = ours
        begin, end = parts[-2:]
        times = (
            ("", "") if case.kind != SIGNED else (str(token.begins_ms).replace("None", "null"), str(token.expires_ms))
        )
        same = contents(b64decode(parts[0])) == contents(message) and (begin, end) == times
        if not same or " ".join(parts[1:-2]) != token.principal:
            wrong[case.name] = answer
    assert wrong == {}


def test_refresh_times_equal_those_of_kafkas_class() -> None:
    random, cases = Random(1), []
    for _ in range(200):
        keys = RefreshKeys(random.randrange(400), random.randrange(100), random.choice((0.5, 0.8, 1.0)), 0.0)
        begin = random.choice((None, 1_000_000 - random.randrange(300_000)))
        cases.append((keys, 1_000_000, begin, 1_000_000 + random.randrange(-1_000, 2_000_000)))
    lines = [
        f"refresh\t{keys.window_factor}\t{keys.min_period_s}\t{keys.buffer_s}\t{now}\t{begin or '-'}\t{end}"
        for keys, now, begin, end in cases
    ]
    # Kafka's thread replaces a time in the past by ten seconds later.
    expected = [max(int(at), now) if int(at) >= now else now + 10_000
                for at, (_, now, _, _) in zip(kafkas(lines), cases, strict=True)]  # fmt: skip
    found = [refresh_at_ms(LoginToken("", "a", begin, end), keys, now, 0.5) for keys, now, begin, end in cases]
    assert found == expected


@contextmanager
def issuer() -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Run an issuer. Yield its URL and the requests that it received."""
    received: list[tuple[str, ...]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            received.append((self.path, body, *(str(self.headers[name]) for name in SHOWN)))
            status, text = RESPONSES[self.path]
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()
    thread.join()


def fetched(url: str, **changed: object) -> str:
    keys = login_keys(SIGNED, OPTIONS, **{"sasl.oauthbearer.token.endpoint.url": url, **changed}).source
    assert isinstance(keys, FetchedLogin)
    keys = keys._replace(backoff_ms=10, backoff_ms_max=100)

    async def main() -> str:
        try:
            return await TokenDownload(keys, AsyncioRuntime(asyncio.get_running_loop())).read()
        except Unavailable:
            return "refused"

    return asyncio.run(main()).strip()


def test_token_requests_equal_those_of_kafkas_class() -> None:
    with issuer() as (url, received):
        cases: list[tuple[str, dict[str, str]]] = [*((path, {}) for path in RESPONSES), ("/token", {URLENCODE: "true"})]
        lines = [
            line("http", OPTIONS, {"sasl.oauthbearer.token.endpoint.url": url + path, **change})
            for path, change in cases
        ]
        theirs = [answer.removeprefix("token ") for answer in kafkas(lines)]
        requests_of_kafka = received[:]
        received.clear()
        ours = [fetched(url + path, **dict.fromkeys(change, True)) for path, change in cases]
    assert ours == ["refused" if answer.startswith("refused") else answer for answer in theirs]
    assert ours.count(TOKEN) == 3
    # A request that can be tried again is sent several times, how often depends on the time.
    assert list(dict.fromkeys(received)) == list(dict.fromkeys(requests_of_kafka))
    for path in RESPONSES:
        tries = [sum(request[0] == path for request in each) for each in (received, requests_of_kafka)]
        assert (tries[0] > 2) == (tries[1] > 2) or path == "/token", path
