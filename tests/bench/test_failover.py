"""The failover benchmark: its computations, the source of stage times, and one frozen server per system."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import typer
from rich.console import Console

from bench.failover import (
    BROKERS,
    LEADER_FIGURES,
    assignments,
    fail_leader,
    journal_moments,
    log_moments,
    main,
)
from bench.results import Measurement, comparison_table
from bench.servers import Shape
from zabka.journal.events import ControllerElected, ControllerReady, Entry
from zabka.journal.writer import encode_line

KAFKA_LOG = """\
2026-01-02 03:04:05,100 INFO kafka.controller.KafkaController [Controller id=2] 2 successfully elected as the controller
2026-01-02 03:04:05,400 INFO kafka.controller.KafkaController [Controller id=2] Sending update metadata request
a stack trace without a date
2026-01-02 03:04:06,900 INFO kafka.controller.KafkaController [Controller id=2] Ready to serve as the new controller
"""


class NoServers:
    side = "ours"
    leader, numbers, hosts = 2, (1, 2, 3), ("a:1", "b:2", "c:3")
    shape = Shape(tick_ms=500, sync_limit_ticks=2)

    def __init__(self) -> None:
        self.done: list[tuple[object, ...]] = []

    def kill(self, n: int) -> None:
        self.done.append(("kill", n))

    def start(self, n: int) -> None:
        self.done.append(("start", n))

    def freeze(self, n: int, frozen: bool = True) -> None:
        self.done.append(("freeze" if frozen else "thaw", n))


def failed(freeze: bool, monkeypatch: pytest.MonkeyPatch, **outcome: float) -> tuple[Measurement, NoServers]:
    def write_through(hosts: list[str], fault: object, *_: float) -> dict[str, float]:
        assert hosts == ["a:1", "c:3"] and callable(fault)
        fault()
        return {"took_ms": 1010.0, "lost": 0, "sessions_lost": 0, **outcome}

    monkeypatch.setattr("bench.failover.write_through", write_through)
    servers = NoServers()
    return fail_leader(servers, freeze), servers  # type: ignore[arg-type]


def test_frozen_leader_result_has_the_delay_beyond_sync_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    measurement, servers = failed(True, monkeypatch)
    assert measurement.figures["over_limit_ms"] == 10.0 and measurement.problems == []
    assert servers.done == [("freeze", 2), ("thaw", 2)]


def test_result_for_a_killed_leader_omits_the_sync_limit_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    measurement, servers = failed(False, monkeypatch, lost=2, sessions_lost=1)
    assert "over_limit_ms" not in measurement.figures
    assert measurement.problems == ["2 acknowledged writes lost", "the session was lost"]
    assert servers.done == [("kill", 2), ("start", 2)]


def test_table_has_median_worst_and_total_losses() -> None:
    found = [
        Measurement("leader frozen", "ours", {"took_ms": took, "over_limit_ms": took - 1000, "lost": 1.0})
        for took in (1010.0, 1050.0, 1020.0)
    ]
    table = comparison_table("", found, LEADER_FIGURES)
    row = [Console().render_str(str(next(iter(column.cells)))).plain for column in table.columns]
    assert row == ["leader frozen", "zabka", "1,020", "1,050", "+20", "+50", "3", ""]


@pytest.mark.parametrize("as_json", [True])
def test_frozen_servers_are_detected_without_losing_writes(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        main(kills=0, freezes=1, controllers=0, tick_time=200, sync_limit=2, only="ours", as_json=as_json)

    assert ended.value.exit_code == 0
    _, *found = map(json.loads, capsys.readouterr().out.splitlines())
    assert [each["work"] for each in found] == ["leader frozen", "followers frozen"]
    assert found[0]["figures"]["lost"] == found[0]["figures"]["sessions_lost"] == 0
    # Followers detect the frozen leader when syncLimit has passed since its last ping. The leader sent that ping up to
    # half a tick before the freeze.
    assert found[0]["figures"]["took_ms"] > 300


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = [replicas for _, topic in assignments(1_200) for replicas in topic]
    assert len(placed) == 1_200
    assert set(Counter(replicas[0] for replicas in placed).values()) == {1_200 // BROKERS}
    assert all(len(set(replicas)) == 3 for replicas in placed)


def test_controller_failover_stages_are_read_from_the_journal(tmp_path: Path) -> None:
    elected = ControllerElected(broker_id=2, controller_epoch=2, zk_version=2, zxid=7)
    ready = ControllerReady(broker_id=2, controller_epoch=2, read_ms=300, decide_ms=1_500)
    entries = [Entry("broker-2", 1, 10_000_000, 0, elected), Entry("broker-2", 2, 12_000_000, 0, ready)]
    lines = [encode_line(e.node, e.node_seq, e.wall_us, e.mono_us, e.event) for e in entries]
    (tmp_path / "broker-2.000000000001.jsonl").write_bytes(b"".join(lines))
    assert journal_moments(tmp_path, since=9.5) == (10.0, 10.5, 12.0)
    assert journal_moments(tmp_path, since=60.0) is None


def test_controller_failover_stages_are_read_from_kafkas_log(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(KAFKA_LOG)
    at = log_moments(tmp_path, since=0.0)
    assert at is not None
    assert [round(moment - at.elected, 3) for moment in at] == [0.0, 0.3, 1.8]
    assert log_moments(tmp_path, since=at.decided + 10) is None
