"""What a file has to hold to be a token, for who asks for one and for who sends it."""

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


def test_white_space_around_a_token_is_not_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" abc \n")
    assert read_token(tmp_path / "token") == "abc"


@pytest.mark.parametrize("content", NONE)
def test_what_nobody_could_ask_for_is_no_token(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    for read in (read_token, token):
        with pytest.raises(BadToken) as refused:
            read(tmp_path / "token")
        assert str(refused.value).startswith(f"{tmp_path / 'token'} contains no ")
        assert NONE[content] in str(refused.value)


@pytest.mark.parametrize("name", [TOKEN_FILE, API_TOKEN_FILE])
def test_a_cluster_does_not_start_on_a_file_that_holds_no_token(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\xff")
    command = [sys.executable, "-m", "zabka.cli.main", "up", "--data", str(tmp_path), "--port", "0", "--zk-port", "0"]
    done = subprocess.run([*command, "--kafka-port", "0"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert f"{tmp_path / name} contains no token: it is not a text file" in done.stderr
    assert "Traceback" not in done.stderr
