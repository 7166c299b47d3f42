"""`zabka scenarios run --on URL` without a cluster at the URL reports an error and no verdict."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.http_server import serving


class _OtherServer(BaseHTTPRequestHandler):
    """HTTP server that is not zabka's and responds to every request."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'["a"]' if self.path.startswith("/json") else b"<html>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def other_server() -> Iterator[str]:
    """URL of a server that is not zabka's."""
    with serving(_OtherServer) as url:
        yield url


def refused(*arguments: str) -> str:
    """Run with `--on …`, check that only standard error has output and the exit code means invalid usage, and return
    that output.
    """
    command = [
        sys.executable,
        "-m",
        "zabka.cli.main",
        "scenarios",
        "run",
        "leader-killed",
        "--json",
        "--on",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_url_without_a_cluster_is_rejected(other_server: str) -> None:
    assert "there is no cluster at 'http://127.0.0.1:1': " in refused("http://127.0.0.1:1")
    assert "not JSON" in refused(other_server)
    assert "there is no cluster at" in refused(f"{other_server}/json")
    assert "there is no cluster at 'localhost'" in refused("localhost")
    assert "there is no cluster at" in refused("http://a\nb")


def test_invalid_token_is_rejected_without_printing_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content in ("gehe\u00efm", "gehe\nim"):
        file.write_text(content)
        output = refused("http://127.0.0.1:1", "--token-file", str(file))
        assert "contains no valid token" in output and "gehe" not in output
    file.write_bytes(b"gehe\xff")
    output = refused("http://127.0.0.1:1", "--token-file", str(file))
    assert output == f"{file} contains no token: it is not a text file\n"
    file.write_bytes(b"\n")
    assert refused("http://127.0.0.1:1", "--token-file", str(file)) == f"{file} contains no token: it is empty\n"


def test_token_without_the_url_of_a_cluster_is_rejected(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "zabka.cli.main", "scenarios", "run", "leader-killed"]
    for more in ([], ["--live"]):
        done = subprocess.run(
            [*command, *more, "--token-file", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert "--token-file needs --on" in done.stderr
