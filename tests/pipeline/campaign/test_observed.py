"""A campaign that is derived from a live cluster's journals."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from zabka.cli.campaign import app
from zabka.journal import events as e
from zabka.journal.events import Entry, Event
from zabka.journal.writer import JournalWriter
from zabka.pipeline.campaign.definition import parse_campaign
from zabka.pipeline.campaign.observed import campaign_text, observe

BROKER = {
    "zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "3000", "min.insync.replicas": "2",
    "log.dirs": "/somewhere",
}  # fmt: skip
OBSERVED: list[tuple[int, str, Event]] = [
    *((0, f"peer-{number}", e.NodeStarted("peer", number, {"tickTime": "500"})) for number in (1, 2, 3)),
    *((1, f"broker-{number}", e.NodeStarted("broker", number, BROKER)) for number in (1, 2, 3, 4)),
    (2, "broker-1", e.TopicCreated("a", "id", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})),
    (2, "broker-1", e.TopicCreated("b", "id", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})),
    (2, "broker-1", e.TopicCreated("c", "id", {0: [1]})),
    (2, "broker-1", e.TopicCreated("__consumer_offsets", "id", {n: [1] for n in range(50)})),
    (100, "host-1", e.ProcessChanged("broker-1", "down", None, "kill")),
    (103, "host-1", e.ProcessChanged("broker-1", "running", 7, "start")),
    (200, "host-1", e.ProcessChanged("peer-2", "paused", 8, "pause")),
    (202, "host-1", e.ProcessChanged("peer-2", "running", 8, "resume")),
    (300, "host-1", e.ProcessChanged("broker-1", "down", None, "kill")),
    (400, "api-1", e.FaultInjected("f1", "cut", "broker-1", "broker-2", False)),
    (401, "api-1", e.FaultRemoved("f1")),
    (500, "api-1", e.FaultInjected("f2", "disk_full", "peer-1", "peer-1", False)),
    (600, "host-1", e.ProcessChanged("peer-1", "running", 9, "start")),
]  # fmt: skip


def entries() -> list[Entry]:
    return [
        Entry(node, place, at_s * 1_000_000, 0, event) for place, (at_s, node, event) in enumerate(OBSERVED, start=1)
    ]


def test_campaign_records_observed_sizes_settings_and_faults() -> None:
    seen = observe(entries())
    assert (seen.peers, seen.brokers) == (3, 4)
    assert seen.settings == {
        "tickTime": "500", "zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "3000",
        "min.insync.replicas": "2",
    }  # fmt: skip
    assert seen.faults == {"crash_broker": 2, "pause": 1, "cut_one_way": 1}
    assert sorted(seen.lasted_ms) == [1_000, 2_000, 3_000]
    assert seen.other_faults == {"disk_full of a link": 1}


def test_written_campaign_file_is_valid_and_states_its_sources() -> None:
    text = campaign_text(observe(entries()), "data")
    campaign = parse_campaign(text)
    arguments = campaign.arguments(campaign.points()[0])
    assert {"peers=3", "brokers=4", "num.partitions=3", "default.replication.factor=3", "min.insync.replicas=2",
            "faults.kinds=crash_broker:2,pause:1,cut_one_way:1", "faults.lasts.ms=1000-3000",
            "zookeeper.session.timeout.ms=6000"} <= set(arguments)  # fmt: skip
    assert [int(point["zookeeper.session.timeout.ms"]) for point in campaign.points()] == [6000, 3000, 9000, 10000]
    assert "# Faults seen: 4, one every 150 s." in text
    assert "# Left out, for want of a simulated one: disk_full of a link, 1 times." in text


def test_unobserved_value_is_marked_as_a_guess() -> None:
    text = campaign_text(observe([entry for entry in entries() if isinstance(entry.event, e.NodeStarted)]), "data")
    parse_campaign(text)
    assert text.count("a guess") == 3


def test_directory_name_is_escaped_in_the_campaign_file() -> None:
    assert parse_campaign(campaign_text(observe(entries()), 'x"\n[grid]')).grid.keys() == {
        "zookeeper.session.timeout.ms"
    }


def test_command_writes_a_campaign_file_for_a_data_directory(tmp_path: Path) -> None:
    now = [0]
    writers: dict[str, JournalWriter] = {}
    for at_s, node, event in OBSERVED:
        if node not in writers:
            writers[node] = JournalWriter(tmp_path / node / "journal", node, clocks=lambda: (now[0], 0))
        now[0] = at_s * 1_000_000
        writers[node].write(event)
    for writer in writers.values():
        writer.close()
    answer = CliRunner().invoke(app, ["from-journal", str(tmp_path), "--out", str(tmp_path / "of.toml")])
    assert answer.exit_code == 0, answer.output
    assert parse_campaign((tmp_path / "of.toml").read_text()).settings["brokers"] == "4"


@pytest.mark.parametrize("what", ["nothing", "an empty directory", "a journal of nothing"])
def test_directory_without_a_cluster_is_reported(what: str, tmp_path: Path) -> None:
    place = tmp_path / "data"
    if what != "nothing":
        place.mkdir()
    if what == "a journal of nothing":
        (place / "x.jsonl").touch()
    answer = CliRunner().invoke(app, ["from-journal", str(place)])
    assert answer.exit_code == 2
    assert "journals" in answer.output
