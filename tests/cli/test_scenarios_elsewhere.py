"""`zabka scenarios run --on URL` where there is no cluster: that is no verdict of a script."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.http_server import serving


class _Somebody(BaseHTTPRequestHandler):
    """A server of something else, which answers everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'["a"]' if self.path.startswith("/json") else b"<html>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def somebody() -> Iterator[str]:
    """The URL of a server of something else."""
    with serving(_Somebody) as url:
        yield url


def refused(*arguments: str) -> str:
    """What is said of `--on …`, on standard error alone, with the exit code of what makes no sense."""
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


def test_a_url_where_no_cluster_answers_is_refused(somebody: str) -> None:
    assert "there is no cluster at 'http://127.0.0.1:1': " in refused("http://127.0.0.1:1")
    assert "no JSON" in refused(somebody)
    assert "there is no cluster at" in refused(f"{somebody}/json")
    assert "there is no cluster at 'localhost'" in refused("localhost")
    assert "there is no cluster at" in refused("http://a\nb")


def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content in ("gehe\u00efm", "gehe\nim"):
        file.write_text(content)
        said = refused("http://127.0.0.1:1", "--token-file", str(file))
        assert "contains no valid token" in said and "gehe" not in said
    file.write_bytes(b"gehe\xff")
    said = refused("http://127.0.0.1:1", "--token-file", str(file))
    assert said == f"{file} contains no token: it is not a text file\n"
    file.write_bytes(b"\n")
    assert refused("http://127.0.0.1:1", "--token-file", str(file)) == f"{file} contains no token: it is empty\n"


def test_a_token_for_no_cluster_that_runs_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "zabka.cli.main", "scenarios", "run", "leader-killed"]
    for more in ([], ["--live"]):
        done = subprocess.run(
            [*command, *more, "--token-file", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert "--token-file needs --on" in done.stderr
