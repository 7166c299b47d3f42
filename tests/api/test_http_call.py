"""Blocking HTTP calls: the request that the server receives, and the error raised if no response arrives."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from tests.http_server import serving
from zabka.agent.http_call import Answer, NoAnswer, call


class _Echo(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        asked = self.rfile.read(int(self.headers.get("content-length", "0")))
        body = f"{self.command} {self.path} {self.headers.get('x-mark', '')} ".encode() + asked
        self.send_response(418 if self.path == "/refused" else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PATCH = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Disable the request log."""


@pytest.fixture
def echo() -> Iterator[str]:
    with serving(_Echo) as url:
        yield url


def test_call_sends_method_headers_and_body(echo: str) -> None:
    answer = call("PATCH", f"{echo}/a?b=1", b"{}", {"x-mark": "m"}, timeout_s=5)
    assert answer == Answer(200, b"PATCH /a?b=1 m {}")


@pytest.mark.parametrize(
    ("path", "asked"), [("", "/"), ("/t/\u00e9 x", "/t/%C3%A9%20x"), ("/t%2Fu?at=1#part", "/t%2Fu?at=1")]
)
def test_call_escapes_its_path_only_once(echo: str, path: str, asked: str) -> None:
    assert call("GET", echo + path, timeout_s=5).body.decode().split() == ["GET", asked]


def test_error_status_is_returned_as_a_response(echo: str) -> None:
    answer = call("DELETE", f"{echo}/refused", timeout_s=5)
    assert (answer.status, answer.is_success) == (418, False)


@pytest.mark.parametrize(
    "url", ["localhost", "ftp://127.0.0.1", "http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:1"]
)
def test_call_without_a_valid_response_raises_a_no_answer_error(url: str) -> None:
    with pytest.raises(NoAnswer):
        call("GET", url, timeout_s=5)
