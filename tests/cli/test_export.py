"""`zabka export` writes a run to one file.

The run can be that of a seed, a scenario, a journal or a running cluster.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from tests.api.api_server import Server
from zabka.agent.protocol import JournalChunk, Position
from zabka.api.exports.opened import opened
from zabka.cli.export import command
from zabka.journal.events import BrokerSessionChanged
from zabka.journal.writer import encode_line


def test_scenario_is_exported_with_and_without_its_bug(tmp_path: Path) -> None:
    out = tmp_path / "new" / "run.html"
    command(out, scenario="kafka-1211", from_="0", to="100 s")
    shown, other = opened(out.read_bytes())
    assert (shown.about.variant, other.about.variant) == ("with its bug", None)
    assert shown.about.replay == "zabka scenarios run kafka-1211"
    assert shown.messages


def test_seed_and_its_journal_are_exported_with_the_same_events(tmp_path: Path) -> None:
    from zabka.cli.replay import replay

    command(tmp_path / "seed.html", seed=3, scenario="ensemble")
    assert replay(3, "ensemble", [], tmp_path / "seed.jsonl") == 0
    command(tmp_path / "journal.html", journals=tmp_path / "seed.jsonl")
    [one], [other] = (opened((tmp_path / name).read_bytes()) for name in ("seed.html", "journal.html"))
    assert one.taken == other.taken
    assert (one.about.id, one.about.link) == ("ensemble-3", "scenario=ensemble&seed=3")


def test_trace_of_a_seed_is_written(tmp_path: Path) -> None:
    command(tmp_path / "trace.json", seed=3, scenario="ensemble", form="perfetto")
    assert json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]


def test_live_cluster_is_exported_from_its_url(tmp_path: Path) -> None:
    events = [BrokerSessionChanged(1, "connected", 7), BrokerSessionChanged(1, "suspended", 7)]
    lines = b"".join(encode_line("broker-1", at, at * 1_000, at * 1_000, event) for at, event in enumerate(events, 1))
    with Server(tmp_path / "data") as server:
        server.collect(JournalChunk("broker-1", lines, Position("f", len(lines))))
        command(tmp_path / "run.html", run="live", on=server.url)
    [run] = opened((tmp_path / "run.html").read_bytes())
    assert [entry.event for entry in run.taken.entries] == events


def test_unknown_or_empty_run_of_a_cluster_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server(tmp_path / "data") as server:
        for run in ("live", "r00000000"):
            with pytest.raises(typer.Exit):
                command(tmp_path / "run.html", run=run, on=server.url)
    assert not (tmp_path / "run.html").exists()
    assert capsys.readouterr().err.count("zabka:") == 2


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "takes one of"),
        ({"run": "live", "seed": 1}, "takes one of"),
        ({"scenario": "chaos"}, "add --seed"),
        ({"scenario": "kafka-1212"}, "there is no scenario"),
        ({"journals": Path("/nowhere")}, "there is no journal"),
        ({"seed": 1, "from_": "noon"}, "is no time"),
        ({"seed": 1, "form": "pdf"}, "there is no format pdf"),
        ({"run": "live", "set_": ["a=b"]}, "--set works with"),
        ({"run": "live", "on": "http://127.0.0.1:9"}, "127.0.0.1:9"),
    ],
)
def test_invalid_arguments_are_rejected_with_the_reason(
    given: dict[str, object], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        command(tmp_path / "run.html", **given)  # type: ignore[arg-type]
    assert ended.value.exit_code == 2
    assert reason in capsys.readouterr().err
