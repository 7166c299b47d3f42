"""What was asked for over HTTP is in the journal, and what was refused or only looked at is not."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.api.api_server import Server
from zabka.journal.events import AdminRequested


def test_a_call_that_changes_something_is_journalled_unless_it_is_refused(tmp_path: Path) -> None:
    with Server(tmp_path) as running, httpx.Client(base_url=running.url, trust_env=False) as http:
        assert http.get("/api/v1/faults").status_code == 200
        assert http.post("/api/v1/faults", json={"from": "broker-1", "to": "nobody"}).status_code == 422
        assert http.post("/api/v1/faults", json={"from": "broker-1", "to": "*", "kind": "cut"}).status_code == 201
    assert running.journalled == [AdminRequested("POST /faults", [], "127.0.0.1")]
