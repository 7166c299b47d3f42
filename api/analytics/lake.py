"""The state of the pipeline's lake: its tables, its stream and its campaigns. The module only reads files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from zabka.api.analytics.tables import rows_of
from zabka.api.http.problems import Problem
from zabka.api.scenarios.campaign_models import CampaignView, GoldTable, PipelineStands, SparkStands, StreamStands

CAMPAIGNS, STANDING, RUNS, REPORT = "campaigns", "standing.json", "runs.jsonl", "report.html"
STATUS, PROGRESS, GAPS = "_status.json", "_progress.json", "gaps"
TABLES_MAX = 200


class _Status(msgspec.Struct):
    """The content of `_status.json`, which the stream writes."""

    batch: int
    lines: int
    quarantined: int = msgspec.field(name="set_aside")
    latest_us: int
    written_us: int
    made_ms: int
    broken: dict[str, dict[str, int]]


class _Progress(msgspec.Struct):
    """The content of `_progress.json`, which the stream writes."""

    seen_us: int
    message: str
    batch: int | None = None
    rows: int = 0
    rows_per_second: float = 0.0
    durations_ms: dict[str, int] = {}


class _Standing(msgspec.Struct):
    """The content of `standing.json`, which a campaign writes."""

    question: str
    settings: int
    seeds: int
    ended: str | None = None
    answer: list[str] = []
    violations: int = 0


def pipeline_stands(lake: Path, data: Path) -> PipelineStands:
    """Return the state of the lake's tables, its stream and Spark. A missing lake has no tables."""
    tables = _tables(lake)
    status, progress = _read(lake / STATUS, _Status), _read(lake / PROGRESS, _Progress)
    return PipelineStands(
        tables=tables,
        missing=sum(table.rows for table in tables if table.name == GAPS),
        stream=None if status is None else _stream(status),
        spark=None if progress is None else _spark(progress),
        command=f"zabka pipeline stream --follow --data {data}",
    )


def _is_alias(table: Path) -> bool:
    """Return whether a table's path is a symbolic link to a table of another name."""
    return table.is_symlink() and table.readlink().name != table.name


def _tables(lake: Path) -> list[GoldTable]:
    try:
        places = sorted(path for path in lake.iterdir() if not (path.name.startswith(("_", ".")) or _is_alias(path)))
    except OSError:
        return []
    not_gold = ("bronze", "silver", CAMPAIGNS)
    found = [(path.name, rows_of(path)) for path in places[:TABLES_MAX] if path.name not in not_gold]
    return [GoldTable(name=name, rows=seen[0], written_ms=seen[1]) for name, seen in found if seen is not None]


def _stream(status: _Status) -> StreamStands:
    return StreamStands(
        batch=status.batch,
        lines=status.lines,
        set_aside=status.quarantined,
        lag_ms=max(0, status.written_us - status.latest_us) // 1000,
        made_ms=status.made_ms,
        written_ms=status.written_us // 1000,
        broken=status.broken,
    )


def _spark(progress: _Progress) -> SparkStands:
    return SparkStands(
        seen_ms=progress.seen_us // 1000,
        message=progress.message,
        batch=progress.batch,
        rows=progress.rows,
        rows_per_second=progress.rows_per_second,
        durations_ms=progress.durations_ms,
    )


def _read(path: Path, kind: type[Any]) -> Any:
    """Decode a JSON file. Return None if the file is missing or does not match the type `kind`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def campaigns(lake: Path) -> list[CampaignView]:
    """Return every campaign of the lake, ordered by name."""
    try:
        places = sorted(path for path in (lake / CAMPAIGNS).iterdir() if path.is_dir())
    except OSError:
        return []
    found = ((path, _read(path / STANDING, _Standing)) for path in places)
    return [_view(path, stands) for path, stands in found if stands is not None]


def _view(path: Path, stands: _Standing) -> CampaignView:
    try:
        with (path / RUNS).open("rb") as file:
            runs = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
        last_run_ms = int((path / RUNS).stat().st_mtime * 1000) if runs else None
    except OSError:
        runs, last_run_ms = 0, None
    return CampaignView(
        name=path.name,
        question=stands.question,
        settings=stands.settings,
        seeds=stands.seeds,
        runs=runs,
        last_run_ms=last_run_ms,
        ended=stands.ended,
        answer=stands.answer,
        violations=stands.violations,
        report=(path / REPORT).is_file(),
    )


def campaign(lake: Path, name: str) -> CampaignView:
    """Return a campaign. Raises Problem 404."""
    found = next((each for each in campaigns(lake) if each.name == name), None)
    if found is None:
        raise Problem(404, f"there is no campaign {name}; GET /api/v1/campaigns lists them")
    return found


def report(lake: Path, name: str) -> bytes:
    """Return a campaign's report. Raises Problem 404 if the campaign or its report does not exist."""
    found = campaign(lake, name)
    try:
        return (lake / CAMPAIGNS / found.name / REPORT).read_bytes()
    except OSError:
        raise Problem(404, f"there is no report of the campaign {name} yet: it has not ended") from None
