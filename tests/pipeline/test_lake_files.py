"""Files that the pipeline writes into a lake and the API reads. Both packages use the same format."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from zabka.api.analytics import lake as read
from zabka.pipeline import stream
from zabka.pipeline.campaign import ledger, standing


@pytest.mark.parametrize(
    ("written", "expected"),
    [(stream.Status, read._Status), (stream.Progress, read._Progress), (standing.Standing, read._Standing)],
)
def test_api_and_pipeline_structs_have_the_same_fields(written: Any, expected: Any) -> None:
    def fields(kind: Any) -> list[tuple[str, object, object]]:
        return [(each.name, each.type, each.default) for each in msgspec.structs.fields(kind)]

    assert fields(written) == fields(expected)


def test_api_and_pipeline_use_the_same_file_names() -> None:
    assert (read.STATUS, read.PROGRESS, read.GAPS) == (stream.STATUS, stream.PROGRESS, stream.GAPS)
    assert (read.STANDING, read.RUNS) == (standing.STANDING, ledger.RUNS)


def test_spark_progress_written_by_a_stream_is_read_by_the_api(tmp_path: Path) -> None:
    last = {"batchId": 3, "numInputRows": 40, "processedRowsPerSecond": 12.5, "durationMs": {"addBatch": 900}}
    query: Any = SimpleNamespace(status={"message": "Waiting"}, lastProgress=last)
    stream.note_progress(query, tmp_path)
    progress = read.pipeline_stands(tmp_path, tmp_path).spark
    assert progress is not None
    assert (progress.message, progress.batch, progress.rows, progress.rows_per_second) == ("Waiting", 3, 40, 12.5)
    assert progress.durations_ms == {"addBatch": 900}


def test_progress_written_by_a_campaign_is_read_by_the_api(tmp_path: Path) -> None:
    directory = tmp_path / read.CAMPAIGNS / "lag"
    directory.mkdir(parents=True)
    stands = standing.Standing(question="Which?", settings=2, seeds=3, ended="clear", answer=["This."], violations=1)
    standing.write(directory, stands)
    (campaign,) = read.campaigns(tmp_path)
    assert (campaign.name, campaign.question, campaign.settings, campaign.seeds) == ("lag", "Which?", 2, 3)
    assert (campaign.ended, campaign.answer, campaign.violations) == ("clear", ["This."], 1)
