"""The JSON shapes of runs, with examples."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["live", "scenario", "seed", "upload"]
Verdict = Literal["held", "violated"]

KEPT_EXAMPLE: dict[str, Any] = {
    "id": "r1a2b3c4d", "kind": "scenario", "title": "A follower cuts off what it was told to be committed",
    "of": "kafka-1211", "pair": "r1a2b3c4d.bug", "decisive_seq": 1306, "variant": None,
    "first_seq": 1, "last_seq": 1913, "first_us": 1700000000000000,
    "last_us": 1700000013203000, "events": 1913, "messages": False, "verdict": "held",
    "sha256": "e4451e6b9b2d44543f1253def142039318ce1e3b8fb7c5c7feccfa8a152f0565",
    "replay": "zabka scenarios run kafka-1211", "created_ms": 1700000100000,
}  # fmt: skip


class Run(BaseModel):
    """A history that can be rewound."""

    model_config = ConfigDict(json_schema_extra={"example": KEPT_EXAMPLE})

    id: str = Field(description="`live`, or that of a kept run; a run with its bug is `….bug`")
    kind: Kind
    title: str
    of: str | None = Field(default=None, description="The scenario, seed or file that it is of; null of `live`")
    pair: str | None = Field(default=None, description="The same script with its bug, or without it, where it is kept")
    first_seq: int = Field(description="The oldest number that is kept")
    last_seq: int
    first_us: int = Field(description="When its oldest event was, on the clock of `wall_us`")
    last_us: int
    events: int
    messages: bool = Field(default=False, description="Are its messages kept, too?")
    verdict: Verdict | None = Field(default=None, description="Null where nothing judged it")
    sha256: str | None = Field(default=None, description="Of its journal as it was given, or as `replay` writes it")
    replay: str | None = Field(default=None, description="The command that plays it again")
    decisive_seq: int | None = Field(
        default=None, description="Of a script's play: the event at which its outcome is settled"
    )
    variant: str | None = Field(
        default=None, description="How this play differs from its script: `with its bug`, or `with KEY=VALUE`"
    )
    created_ms: int = Field(description="When it was kept; of `live`, when its oldest event was")


class StateAt(BaseModel):
    """The folded state at a moment."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"seq": 812, "at_us": 1700000006515000, "state": {"controller_id": 2}}}
    )

    seq: int = Field(description="The last event in it")
    at_us: int
    state: dict[str, Any] = Field(description="As the event stream's snapshot has it")


class SpanTold(BaseModel):
    """How long a row of a lane was in one state."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "from_us": 1700000001171496, "to_us": 1700000006514724, "state": "dead", "seq": 812,
                "value": {"broker_id": 1, "controller_epoch": 1, "lost_by": "kill"},
            }
        }
    )  # fmt: skip

    from_us: int = Field(description="May lie before what was asked for: when it really began")
    to_us: int | None = Field(description="Null while it lasts, or where it lasts beyond what was asked for")
    state: str
    value: Any = Field(description="What belongs to the state: the holder of a reign, a replica, an epoch, a fault")
    seq: int = Field(description="The event that began it")
    merged: dict[str, int] | None = Field(
        default=None,
        description="With `bins`: how many spans of which state are told as one, which has the longest one's state",
    )


class Lane(BaseModel):
    """One lane: `controller` (reigns, dead, nobody), `belief:broker-N` (right, stale, ahead, silent), `isr:TOPIC-P`
    (rows by `value.replica`: leader, in_sync, out, gone; and leaderless, with -1), `peer:N` (its role, with phase and
    epochs), `process:NODE` (running, paused, down, unknown), `faults` (rows by `value.fault_id`: their kinds)."""

    lane: str
    kind: Literal["controller", "belief", "isr", "peer", "process", "faults"]
    spans: list[SpanTold]


class SpansTold(BaseModel):
    """What lasted how long."""

    first_us: int
    last_us: int
    lanes: list[Lane]


class Link(BaseModel):
    """Something that can be read elsewhere."""

    name: str
    url: str


class RuleSource(BaseModel):
    """Where it is decided here."""

    path: str
    symbol: str
    line: int | None


class RuleTold(BaseModel):
    """Why it is decided so, whoever decides it."""

    name: str
    sentence: str
    source: RuleSource
    theirs: Link = Field(description="Where Kafka or ZooKeeper decides it")
    references: list[Link] = Field(description="KIPs, sections of papers, issues")


class ToldGap(BaseModel):
    """How long there was no controller that could act before one decided first, and the parts of that time."""

    gap_before_ms: float = Field(
        description="From the death or freeze of the last controller to the first decision of this one"
    )
    detection_ms: float | None = Field(
        description="Of it: until the session of the last controller ended; null if no journal reports that"
    )
    election_ms: float = Field(description="Of it: until this controller was elected")
    loading_ms: float = Field(description="Of it: until this controller had read the state and decided first")


class WhyStep(BaseModel):
    """One event of a chain of causes."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "seq": 1033, "event": {"seq": 1033, "node": "broker-2", "type": "leader_elected"},
                "told": "orders-0: broker 3 leads, leader epoch 1, ISR 3, 4", "link": None, "rule": None,
                "end": None, "says": None, "controller_gap": None,
            }
        }
    )  # fmt: skip

    seq: int
    event: dict[str, Any] = Field(description="As the journal has it")
    told: str = Field(description="The same as a sentence, without the node's name")
    link: str | None = Field(description="How the step before refers to it; null of the effect")
    rule: RuleTold | None = Field(description="Null where the event tells of no decision")
    end: Literal["fault", "request", "timer", "start", "unknown"] | None = Field(
        description="Of the last step: what it began with"
    )
    says: str | None = Field(description="Of the last step: its reference, where no event is behind that")
    controller_gap: ToldGap | None = Field(
        default=None, description="Of a controller's election or first decision: the time without a controller before"
    )


class Parted(BaseModel):
    """The diverging event in each run; null where a run has nothing more of that node."""

    a: dict[str, Any] | None
    b: dict[str, Any] | None


class BeforeParting(BaseModel):
    """The number before the diverging event in each run."""

    a: int
    b: int


class WhyParted(BaseModel):
    """The chain of causes of the diverging event in each run."""

    a: list[WhyStep] | None
    b: list[WhyStep] | None


class Divergence(BaseModel):
    """Where two runs part.  Clocks, measured durations and configurations are not compared."""

    same: bool
    at: Parted = Field(description="`seq` and `event` in each")
    before: BeforeParting | None
    why: WhyParted
