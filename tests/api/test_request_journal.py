"""Requests that change the cluster are journaled. Rejected requests and reads are not."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.api.api_server import Server
from zabka.journal.events import AdminRequested


def test_only_accepted_change_requests_are_journaled(tmp_path: Path) -> None:
    with Server(tmp_path) as running, httpx.Client(base_url=running.url, trust_env=False) as http:
        assert http.get("/api/v1/faults").status_code == 200
        assert http.post("/api/v1/faults", json={"from": "broker-1", "to": "nobody"}).status_code == 422
        assert http.post("/api/v1/faults", json={"from": "broker-1", "to": "*", "kind": "cut"}).status_code == 201
    assert running.journalled == [AdminRequested("POST /faults", [], "127.0.0.1")]
