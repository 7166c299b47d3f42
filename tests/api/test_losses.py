"""POST /losses/acknowledge: a user acknowledges lost records. The acknowledgement survives a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from zabka.agent.protocol import JournalChunk, Position
from zabka.api.collector.collector import Collector
from zabka.api.routes import losses as routes_losses
from zabka.journal import events as e
from zabka.journal.events import Event
from zabka.journal.writer import encode_line

PATH = "/api/v1/losses/acknowledge"


class Journal:
    """Journal of one node. Its events are sent to a collector as the node's host agent does."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.count = 0

    def chunk(self, *events: Event) -> JournalChunk:
        lines = b""
        for event in events:
            self.count += 1
            lines += encode_line(self.node, self.count, 1_000_000 + self.count, 0, event)
        return JournalChunk(self.node, lines, Position("told", self.count, self.count))


@pytest.fixture
def journalled(server: Server) -> Server:
    """Return a server whose journal contains acknowledged records lost by a workload, and records lost by broker 1."""
    own = Journal("api")

    def emit(event: Event) -> None:
        server.collector.accept_chunk(own.chunk(event))
        server.collector.number_due(everything=True)

    server.services.emit = emit
    server.collect(own.chunk(e.WorkloadProgressed("w1", "orders", 500, 498, 0, 389)))
    server.collect(Journal("broker-1").chunk(e.RecordsLost(1, "orders", 0, 90, 120, 31, 30, "diverging_epoch")))
    return server


def post(server: Server, body: Any = None) -> httpx.Response:
    return httpx.post(server.url + PATH, json=body, trust_env=False)


def test_loss_acknowledgement_survives_a_restart(journalled: Server, tmp_path: Path) -> None:
    answer = post(journalled)
    assert (answer.status_code, answer.json()) == (200, {"through_seq": 2, "losses": 1, "producers": {"w1": 389}})
    cluster = httpx.get(f"{journalled.url}/api/v1/cluster", trust_env=False).json()
    assert [(loss["seq"], loss["acknowledged"]) for loss in cluster["losses"]] == [(2, True)]

    journalled.collector.close()
    again = Collector(tmp_path / "collected")
    assert (again.state.losses_acknowledged_seq, again.state.lost_acknowledged) == (2, {"w1": 389})
    again.close()


def test_loss_after_the_acknowledged_event_stays_unacknowledged(journalled: Server) -> None:
    assert post(journalled, {"through_seq": 1}).json()["losses"] == 0
    cluster = httpx.get(f"{journalled.url}/api/v1/cluster", trust_env=False).json()
    assert [loss["acknowledged"] for loss in cluster["losses"]] == [False]


def test_acknowledging_losses_beyond_the_journal_end_is_rejected(journalled: Server) -> None:
    answer = post(journalled, {"through_seq": 99})
    assert (answer.status_code, answer.json()["detail"]) == (422, "through_seq: the journal ends at 2")


def test_loss_acknowledgement_that_is_not_stored_in_time_fails(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_losses, "KEPT_WITHIN_S", 0.1)
    server.collect(Journal("broker-1").chunk(e.RecordsLost(1, "orders", 0, 90, 120, 31, 30, "diverging_epoch")))
    answer = post(server)
    assert answer.status_code == 503
    assert "not stored yet" in answer.json()["detail"]
