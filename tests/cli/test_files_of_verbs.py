"""A subcommand that cannot use its file prints one line with the file's name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from zabka.broker_sim import broker_process
from zabka.cli import replay
from zabka.compose import agent
from zabka.compose.plan import Requested, plan
from zabka.compose.topology import save
from zabka.ensemble.server.process import peer_process


def _files(tmp_path: Path) -> dict[str, Path]:
    """Return unusable files, keyed by what is wrong with them."""
    files = {name: tmp_path / name for name in ("missing", "a directory", "empty", "binary", "unreadable")}
    files["a directory"].mkdir()
    files["empty"].touch()
    files["binary"].write_bytes(b"\xdf\xaa\x00")
    files["unreadable"].touch(0o000)
    if os.access(files["unreadable"], os.R_OK):
        # The root user can read every file.
        del files["unreadable"]
    return files


@pytest.mark.parametrize("verb", ["peer", "broker", "agent", "replay"])
def test_unusable_file_is_reported_with_its_path(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = {
        "peer": peer_process.main,
        "broker": broker_process.main,
        "agent": agent.main,
        "replay": lambda path: replay.replay_choices(path, None, as_story=False),
    }[verb]
    for file in _files(tmp_path).values():
        code = run(file)
        output = capsys.readouterr().err
        assert code in (1, 2)
        assert str(file) in output and len(output.splitlines()) == 1, output


def test_agent_file_for_another_host_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:

    save(plan(Requested(peers=1, brokers=0, zk_port=0, kafka_port=0, api_port=0), None), tmp_path)
    file = tmp_path / "agent.json"
    file.write_text(json.dumps({"data": str(tmp_path), "host": "host-9"}))
    assert agent.main(file) == 1
    assert f"{file} names host host-9" in capsys.readouterr().err
