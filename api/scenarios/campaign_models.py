"""JSON response models for campaigns and for the state of the pipeline, with examples."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CampaignView(BaseModel):
    """A campaign: its question, its progress and its result."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "session-timeout", "question": "Which zookeeper.session.timeout.ms?", "settings": 6,
                "seeds": 16, "runs": 96, "last_run_ms": 1700000000000, "ended": "every seed was played",
                "answer": ["Best in failover is 2000."], "violations": 0, "report": True,
            }
        }
    )  # fmt: skip

    name: str
    question: str
    settings: int = Field(description="Number of compared settings")
    seeds: int = Field(description="Number of seeds per setting; the maximum while the campaign runs")
    runs: int = Field(description="Number of stored runs")
    last_run_ms: int | None = Field(description="Time of the last run")
    ended: str | None = Field(description="Why it ended; null while it runs, and if it was stopped")
    answer: list[str] = Field(description="The result, in sentences")
    violations: int = Field(description="Number of runs that violated an invariant")
    report: bool = Field(description="Whether there is a report")


class GoldTable(BaseModel):
    """A table of the lake, described by the metadata of its files."""

    name: str
    rows: int
    written_ms: int


class StreamStands(BaseModel):
    """Status report of the pipeline's stream, written at its last update of the tables."""

    batch: int
    lines: int
    set_aside: int = Field(description="Lines that are not journal entries")
    lag_ms: int = Field(description="Time from the latest entry until the tables were written")
    made_ms: int = Field(description="How long writing took")
    written_ms: int
    broken: dict[str, dict[str, int]] = Field(
        description="By table: the violated rules, and the number of rows that violate each"
    )


class SparkStands(BaseModel):
    """Spark's status of the streaming query."""

    seen_ms: int = Field(description="Time of the status; a running stream reports every second")
    message: str
    batch: int | None
    rows: int
    rows_per_second: float
    durations_ms: dict[str, int] = Field(description="How long each step of the batch took, by Spark's names")


class PipelineStands(BaseModel):
    """State of the lake's tables, and of the stream that updates them."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "tables": [{"name": "controller_terms", "rows": 3, "written_ms": 1700000000000}], "missing": 0,
                "stream": None, "spark": None, "command": "zabka pipeline stream --follow --data .zabka",
            }
        }
    )  # fmt: skip

    tables: list[GoldTable]
    missing: int = Field(description="Ranges of journal lines that were deleted before they were read (table gaps)")
    stream: StreamStands | None
    spark: SparkStands | None = Field(description="null if no stream runs")
    command: str = Field(description="Command that updates the tables")


class AuditVerdicts(BaseModel):
    """Number of runs in which an invariant passed, was violated, or did not apply."""

    invariant: str
    held: int
    violated: int
    not_checked: int


class AuditViolation(BaseModel):
    """A violation of an invariant: its run, its causes, and the command that replays the run."""

    run: str
    invariant: str
    detail: str
    node: str
    node_seq: int
    chain: list[str]
    command: str | None


class Audits(BaseModel):
    """Result of the last `zabka pipeline audit`."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "runs": 1, "events": 5120, "set_aside": 0, "written_ms": 1700000000000, "violated": 0, "violations": [],
                "verdicts": [{"invariant": "one leader an epoch", "held": 1, "violated": 0, "not_checked": 0}],
                "command": "zabka pipeline audit .zabka",
            }
        }
    )  # fmt: skip

    runs: int
    events: int
    set_aside: int = Field(description="Lines that are not journal entries")
    written_ms: int | None = Field(description="null before the first audit")
    verdicts: list[AuditVerdicts]
    violated: int = Field(description="Number of violations")
    violations: list[AuditViolation] = Field(description="The first violations")
    command: str = Field(description="Command that runs the audit")
