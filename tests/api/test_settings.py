"""Settings of the API: its file, and environment variables for keys that are not in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zabka.api.settings import Settings, load_settings


def loaded(directory: Path, **keys: Any) -> Settings:
    file = directory / "api.json"
    needed = {name: str(directory) for name in ("data", "cluster_data", "token_file", "agent_token_file", "tables")}
    addresses = {"agents": [], "peers": [1], "brokers": [], "zookeeper_connect": "a:1", "bootstrap": "b:1"}
    file.write_text(json.dumps({**needed, **addresses, **keys}))
    return load_settings(file)


def test_environment_variables_set_keys_missing_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZABKA_API_RUNS_MAX", "7")
    monkeypatch.setenv("ZABKA_API_ALLOWED_HOSTS", '["one", "two"]')
    monkeypatch.setenv("ZABKA_API_NODE_MODULES", "/modules")
    monkeypatch.setenv("ZABKA_API_PORT", "9")
    settings = loaded(tmp_path, port=8)
    assert (settings.runs_max, settings.allowed_hosts, settings.port) == (7, ["one", "two"], 8)
    assert settings.node_modules == Path("/modules")


def test_unknown_key_and_bad_value_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no_such_key"):
        loaded(tmp_path, no_such_key=1)
    monkeypatch.setenv("ZABKA_API_RUNS_MAX", "many")
    with pytest.raises(ValueError, match="runs_max"):
        loaded(tmp_path)
