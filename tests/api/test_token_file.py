"""Validation of token files, by the server that requires a token and the client that sends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zabka.agent.token_file import BadToken, read_token
from zabka.compose.files import API_TOKEN_FILE, TOKEN_FILE, token

NONE = {
    b"": "it is empty",
    b" \n": "it is empty",
    b"a\xff": "it is not a text file",
    b"a\x00b": "a header cannot contain",
}


def test_white_space_around_a_token_is_stripped(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" abc \n")
    assert read_token(tmp_path / "token") == "abc"


@pytest.mark.parametrize("content", NONE)
def test_file_without_a_usable_token_is_rejected(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    for read in (read_token, token):
        with pytest.raises(BadToken) as refused:
            read(tmp_path / "token")
        assert str(refused.value).startswith(f"{tmp_path / 'token'} contains no ")
        assert NONE[content] in str(refused.value)


@pytest.mark.parametrize("name", [TOKEN_FILE, API_TOKEN_FILE])
def test_cluster_does_not_start_with_an_invalid_token_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\xff")
    command = [sys.executable, "-m", "zabka.cli.main", "up", "--data", str(tmp_path), "--port", "0", "--zk-port", "0"]
    done = subprocess.run([*command, "--kafka-port", "0"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert f"{tmp_path / name} contains no token: it is not a text file" in done.stderr
    assert "Traceback" not in done.stderr
