"""JSON response models for runs, with examples."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.runs.origins import Origin

Kind = Literal["live", "scenario", "seed", "upload"]
Verdict = Literal["held", "violated"]

KEPT_EXAMPLE: dict[str, Any] = {
    "id": "r1a2b3c4d", "kind": "scenario", "title": "A follower truncates committed records",
    "of": "kafka-1211", "pair": "r1a2b3c4d.bug", "decisive_seq": 1306, "variant": None,
    "first_seq": 1, "last_seq": 1913, "first_us": 1700000000000000,
    "last_us": 1700000013203000, "events": 1913, "messages": False, "verdict": "held",
    "sha256": "e4451e6b9b2d44543f1253def142039318ce1e3b8fb7c5c7feccfa8a152f0565",
    "replay": "zabka scenarios run kafka-1211", "link": "scenario=kafka-1211", "origin": None,
    "created_ms": 1700000100000,
}  # fmt: skip


class Run(BaseModel):
    """A recorded history: of the live cluster, of a scenario, of a seed, or from an upload."""

    model_config = ConfigDict(json_schema_extra={"example": KEPT_EXAMPLE})

    id: str = Field(description="`live`, or the id of a stored run; a run with its bug is `….bug`")
    kind: Kind
    title: str
    of: str | None = Field(default=None, description="Its scenario, seed or file; null for `live`")
    pair: str | None = Field(default=None, description="The same scenario with or without its bug, if it is stored")
    first_seq: int = Field(description="Number of the oldest stored event")
    last_seq: int
    first_us: int = Field(description="Time of its oldest event, on the clock of `wall_us`")
    last_us: int
    events: int
    messages: bool = Field(default=False, description="Whether its messages are stored")
    verdict: Verdict | None = Field(default=None, description="Null if nothing checked it")
    sha256: str | None = Field(default=None, description="Of its journal as uploaded, or as `replay` writes it")
    replay: str | None = Field(default=None, description="The command that replays it")
    decisive_seq: int | None = Field(default=None, description="In a scenario run: the event that decides its outcome")
    variant: str | None = Field(
        default=None, description="How this run differs from its scenario: `with its bug`, or `with KEY=VALUE`"
    )
    link: str | None = Field(
        default=None,
        description="Its part of a link that plays it on any installation, such as `scenario=kafka-1211&bug=yes`; null "
        "for runs that cannot be played again, and for those with settings of their own",
    )
    origin: Origin | None = Field(
        default=None, description="The seed that it plays, and its changes; null if it cannot be forked"
    )
    created_ms: int = Field(description="Time at which it was stored; for `live`, time of its oldest event")


def link_of(scenario: str, seed: int | None = None, *, with_bug: bool = False) -> str:
    """Return the query parameters of a link that runs a scenario.

    With a seed, `scenario` is the name of a scenario with random faults, which are generated from this seed.
    """
    return f"scenario={scenario}{'' if seed is None else f'&seed={seed}'}{'&bug=yes' if with_bug else ''}"


def seed_title(scenario: str, seed: int | None, changes: str = "") -> str:
    """Return the title of a seed's run, or with the changes in words, of its fork."""
    return f"Seed {seed} of {scenario}{f': {changes}' if changes else ''}"


class StateAt(BaseModel):
    """The folded state at an event."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"seq": 812, "at_us": 1700000006515000, "state": {"controller_id": 2}}}
    )

    seq: int = Field(description="The last event in it")
    at_us: int
    state: dict[str, Any] = Field(description="Same form as the snapshot of the event stream")


class SpanView(BaseModel):
    """A span: the time during which one row of a lane had the same state."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "from_us": 1700000001171496, "to_us": 1700000006514724, "state": "dead", "seq": 812,
                "value": {"broker_id": 1, "controller_epoch": 1, "lost_by": "kill"},
            }
        }
    )  # fmt: skip

    from_us: int = Field(description="The real start, which can lie before the requested window")
    to_us: int | None = Field(description="Null while it lasts, or if it ends after the requested window")
    state: str
    value: Any = Field(description="Data of the state: the controller, a replica, an epoch, a fault")
    seq: int = Field(description="The event that started it")
    merged: dict[str, int] | None = Field(
        default=None,
        description="With `bins`: number of merged spans by state; the merged span has the state of the longest one",
    )


class Lane(BaseModel):
    """A lane with its spans.

    The kinds of lanes and their states: `controller` (`active`, `dead`, `none`); `belief:broker-N` (`right`, `stale`,
    `ahead`, `silent`); `isr:TOPIC-P`, one row per `value.replica` (`leader`, `in_sync`, `out`, `gone`; and `leaderless`
    for replica -1); `peer:N` (its role, with phase and epochs); `process:NODE` (`running`, `paused`, `down`,
    `unknown`); `group:ID` (`stable`, `rebalancing`, `empty`, `silent`, with coordinator and generation); `faults`, one
    row per `value.fault_id` (its kind).
    """

    lane: str
    kind: Literal["controller", "belief", "isr", "peer", "process", "group", "faults"]
    spans: list[SpanView]


class SpansView(BaseModel):
    """Response: the spans of states, grouped by lane."""

    first_us: int
    last_us: int
    lanes: list[Lane]


class Link(BaseModel):
    """A link to a source of a rule."""

    name: str
    url: str


class RuleSource(BaseModel):
    """Location of the code that implements a rule."""

    path: str
    symbol: str
    line: int | None


class RuleView(BaseModel):
    """The protocol rule that a decision follows."""

    name: str
    sentence: str
    source: RuleSource
    theirs: Link = Field(description="Where Kafka or ZooKeeper decides it")
    references: list[Link] = Field(description="KIPs, sections of papers, issues")


class GapView(BaseModel):
    """Time without an active controller until the next controller's first decision, in total and by phase."""

    gap_before_ms: float = Field(
        description="From the crash or pause of the last controller to the first decision of this one"
    )
    detection_ms: float | None = Field(
        description="Of that: until the session of the last controller ended; null if no journal reports it"
    )
    election_ms: float = Field(description="Of that: until this controller was elected")
    loading_ms: float = Field(
        description="Of that: until the first decision of this controller, after it read the state"
    )


class WhyStep(BaseModel):
    """One event of a causal chain."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "seq": 1033, "event": {"seq": 1033, "node": "broker-2", "type": "leader_elected"},
                "told": "orders-0: leader 3, leader epoch 1, ISR 3, 4", "link": None, "rule": None,
                "end": None, "says": None, "controller_gap": None,
            }
        }
    )  # fmt: skip

    seq: int
    event: dict[str, Any] = Field(description="As in the journal")
    told: str = Field(description="The event as a sentence, without the node's name")
    link: str | None = Field(description="How the previous step refers to it; null for the effect")
    rule: RuleView | None = Field(description="Null if the event is not a decision")
    end: Literal["fault", "request", "timer", "start", "unknown"] | None = Field(
        description="Last step only: kind of the first cause"
    )
    says: str | None = Field(description="Last step only: its reference, if no event belongs to it")
    controller_gap: GapView | None = Field(
        default=None, description="Controller elections and first decisions only: the time without a controller before"
    )


class IncidentView(BaseModel):
    """A first cause, such as a fault, with all events whose recorded causes lead back to it."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "number": 1, "kind": "kill", "target": "broker-1", "cause_seq": 412, "from_us": 1700000005000000,
                "to_us": 1700000013203000, "headline": "22:13:25.000Z broker-1 is down (host-1#12)",
                "summary": ["session of broker-1 expired after 6,250 ms", "recovered after 8,203 ms"],
            }
        }
    )  # fmt: skip

    number: int
    kind: str = Field(description="Of the fault, the action on the process, or the type of the event")
    target: str = Field(description="The node that the first cause is about; for a link, both ends")
    cause_seq: int = Field(description="The event of the first cause")
    from_us: int
    to_us: int | None = Field(description="When everything was as before; null while it is not")
    headline: str = Field(description="The time and the first cause")
    summary: list[str] = Field(description="The effects as sentences: detection, failover, damage, recovery")


class Parted(BaseModel):
    """The first differing event in each run; null if the node concerned has no further event in that run."""

    a: dict[str, Any] | None
    b: dict[str, Any] | None


class BeforeParting(BaseModel):
    """Number of the last event before the first differing event, in each run."""

    a: int
    b: int


class WhyParted(BaseModel):
    """Causal chain of the first differing event, in each run."""

    a: list[WhyStep] | None
    b: list[WhyStep] | None


class Divergence(BaseModel):
    """First difference between two runs. Clocks, measured durations and configurations are not compared."""

    same: bool
    at: Parted = Field(description="`seq` and `event` in each")
    before: BeforeParting | None
    why: WhyParted
