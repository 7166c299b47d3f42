"""The JSON shapes of campaigns, and of how the pipeline stands, with examples."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CampaignTold(BaseModel):
    """A campaign of the lake."""

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
    settings: int = Field(description="How many settings it compares")
    seeds: int = Field(description="On how many seeds each, at most while it goes on")
    runs: int = Field(description="How many runs are kept")
    last_run_ms: int | None = Field(description="When the last of them came in")
    ended: str | None = Field(description="Why it ended; null while it goes on, and of one that was stopped")
    answer: list[str] = Field(description="What came of it, in sentences")
    violations: int = Field(description="Runs that broke an invariant")
    report: bool = Field(description="Is there a report?")


class GoldTable(BaseModel):
    """A table of the lake, as far as its files' ends tell."""

    name: str
    rows: int
    written_ms: int


class StreamStands(BaseModel):
    """What the stream said when it last made tables."""

    batch: int
    lines: int
    set_aside: int = Field(description="Lines that are no entries")
    lag_ms: int = Field(description="How long after the latest entry the tables were made")
    made_ms: int = Field(description="How long that took")
    written_ms: int
    broken: dict[str, dict[str, int]] = Field(
        description="By table: what should be true of it, and of how many rows it is not"
    )


class SparkStands(BaseModel):
    """What Spark says of the stream's query."""

    seen_ms: int = Field(description="When it said so; a stream that runs says so every second")
    message: str
    batch: int | None
    rows: int
    rows_per_second: float
    durations_ms: dict[str, int] = Field(description="How long each step of the batch took, by Spark's names")


class PipelineStands(BaseModel):
    """How the tables stand, and who keeps them fresh."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "tables": [{"name": "controller_reigns", "rows": 3, "written_ms": 1700000000000}], "missing": 0,
                "stream": None, "spark": None, "command": "zabka pipeline stream --follow --data .zabka",
            }
        }
    )  # fmt: skip

    tables: list[GoldTable]
    missing: int = Field(description="Spans of lines that went before they were read (table gaps)")
    stream: StreamStands | None
    spark: SparkStands | None = Field(description="null where no stream runs")
    command: str = Field(description="What keeps the tables fresh")


class AuditVerdicts(BaseModel):
    """In how many runs an invariant held, broke, or had nothing to judge."""

    invariant: str
    held: int
    violated: int
    not_judged: int


class AuditViolation(BaseModel):
    """A violation: where it shows, what led to it, and what plays its run again."""

    run: str
    invariant: str
    detail: str
    node: str
    node_seq: int
    chain: list[str]
    command: str | None


class Audits(BaseModel):
    """What `zabka pipeline audit` found when it was last run."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "runs": 1, "events": 5120, "set_aside": 0, "written_ms": 1700000000000, "violated": 0, "violations": [],
                "verdicts": [{"invariant": "one leader an epoch", "held": 1, "violated": 0, "not_judged": 0}],
                "command": "zabka pipeline audit .zabka",
            }
        }
    )  # fmt: skip

    runs: int
    events: int
    set_aside: int = Field(description="Lines that are no entries")
    written_ms: int | None = Field(description="null where nothing was audited yet")
    verdicts: list[AuditVerdicts]
    violated: int = Field(description="How many violations there are")
    violations: list[AuditViolation] = Field(description="The first of them")
    command: str = Field(description="What audits anew")
