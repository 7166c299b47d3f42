"""The tables of a live outage: every value equals a value from plain Python or from the clients' records."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipeline.live_outage import CLIENTS_FILE, play, zabka
from tests.plain_tables.compare import TABLES, compare
from tests.plain_tables.journals import Row, read

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a live outage, build its tables, and return the data directory."""
    directory = tmp_path_factory.mktemp("live") / "data"
    play(directory)
    zabka("pipeline", "tables", "--data", directory, within_s=600)
    return directory


def rows_of(data: Path, table: str) -> list[Row]:
    found: list[Row] = pq.read_table((data / "analytics" / table).resolve()).to_pylist()
    return found


def test_pipeline_tables_equal_a_computation_in_plain_python(data: Path) -> None:
    lines = read(data)
    compared = {name: compare(name, data, lines) for name in TABLES}
    assert [difference for each in compared.values() for difference in each.differences] == []
    empty = {name for name, each in compared.items() if not each.rows}
    assert empty == {"clock_steps", "bad_lines"}


def test_every_injected_fault_is_an_incident_that_ended(data: Path) -> None:
    incidents = rows_of(data, "incidents")
    assert Counter(row["kind"] for row in incidents) == {"kill": 5, "pause": 2, "cut": 2}
    assert all(row["to_us"] is not None and row["requester"] == "fixture" for row in incidents)
    assert sum(len(row["elected_uncleanly"]) > 0 for row in incidents) >= 2
    text = zabka("pipeline", "show", "incidents", "--data", data)
    for words in ("requested by fixture", "detected after", "no controller for", "unclean elections: risky-", "lost: "):
        assert words in text


def test_acknowledged_records_clients_miss_are_in_records_lost(data: Path) -> None:
    """All missing records that were acknowledged with acks=1 are in the table `records_lost`.

    No record acknowledged with acks=all is missing.
    """
    clients = json.loads((data / CLIENTS_FILE).read_text())
    lost: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in rows_of(data, "records_lost"):
        lost[row["topic"], row["partition"]].update(range(row["first_offset"], row["last_offset"] + 1))
    missing: Counter[str] = Counter()
    for producer, acknowledged in clients["acknowledged"].items():
        _, acks, topic = producer.split()
        left = {(partition, offset): value for partition, offset, value in clients["left"][topic]}
        assert acknowledged, producer
        for number, partition, offset in acknowledged:
            if left.get((partition, offset)) != str(number):
                missing[acks] += 1
                assert offset in lost[topic, partition], (producer, number, partition, offset)
    assert missing["all"] == 0
    assert missing["1"] > 0
