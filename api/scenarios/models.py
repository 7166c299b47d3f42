"""JSON request and response models of the outage library, with examples."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from zabka.api.runs.run_models import WhyStep
from zabka.api.views.models import Body, Text, as_texts
from zabka.controller.historical import HISTORICAL_KEY, Historical
from zabka.simulation.scenarios.subjects import Subject

SETTINGS_MAX = 50
_STORY: list[Any] = [
    {"at_ms": 1171, "who": "script", "text": "kill second (broker-1)"},
    {"at_ms": 6515, "who": "broker-2", "text": "orders-0: leader 3, leader epoch 1, ISR 3, 4"},
]
_BUG: dict[str, Any] = {HISTORICAL_KEY: "truncate-to-high-watermark"}


class LessonView(BaseModel):
    """A lesson without its right answer, which is computed from a run of the lesson's scenario."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "leader-killed", "title": "A partition's leader is killed", "scenario": "leader-killed",
                "question": "How does the partition's state look?", "answers": ["Another leads.", "Nobody leads."],
                "with_bug": False,
            }
        }
    )  # fmt: skip

    name: str
    title: str
    scenario: str = Field(description="The scenario of the lesson")
    question: str
    answers: list[str] = Field(description="The answers to choose from")
    with_bug: bool = Field(description="Whether the question is about the run with the bug")


class LessonRevealed(BaseModel):
    """The right answer to a lesson, computed from a run."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "run": "r1a2b3c4d", "pair": None, "seq": 812, "right": 1,
                "look_at": "The partition's lanes.", "explanation": "Every member of the ISR has all of it.",
                "chain": [], "beginning": {"seq": 640, "told": "crash broker-1 → broker-1"},
            }
        }
    )  # fmt: skip

    run: str = Field(description="The run of the question")
    pair: str | None = Field(description="The same scenario with or without its bug, if it is stored")
    seq: int = Field(description="The moment to look at")
    right: int = Field(description="Index of the right answer, from 0, according to this run")
    look_at: str
    explanation: str
    chain: list[WhyStep] = Field(description="Chain of causes, starting with the event of the moment")
    beginning: dict[str, Any] | None = Field(
        description="The fault or request that caused it: its number and its sentence"
    )


def variant_label(settings: dict[str, str]) -> str:
    """Return a label for the settings of a run that differ from the settings of its scenario.

    These settings either enable the scenario's bug (the old behaviour) or change other keys.
    """
    if HISTORICAL_KEY in settings:
        return "with its bug"
    return "with " + (", ".join(f"{key}={value}" for key, value in settings.items()) or "the mistake")


class Outage(BaseModel):
    """The result of running a scenario with its bug enabled."""

    settings: dict[str, str] = Field(
        description="The bug, in the form of `--set`; `acks` is the producer's.  Empty for an operator action"
    )
    shows: str = Field(description="What must fail then")
    label: str = Field(
        default="with its bug",
        description="How this run differs: `with its bug`, `with KEY=VALUE`, `with the mistake`",
    )


class Scenario(BaseModel):
    """One scenario of the outage library."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "kafka-1211", "title": "A follower truncates committed records",
                "hypothesis": "A follower truncates where its log and its leader's log diverge, not at its high "
                "watermark.",
                "source": "KAFKA-1211, KIP-101", "fixed": "0.11.0.0", "subjects": ["replication"], "driver": "world",
                "peers": 3, "brokers": 4,
                "expected": "held", "outage": {"settings": _BUG, "shows": "lost write"},
                "switches": ["truncate-to-high-watermark"], "live": True, "live_obstacle": None,
                "running_obstacle": None,
            }
        }
    )  # fmt: skip

    name: str
    title: str = Field(description="What went wrong")
    hypothesis: str = Field(description="Why zabka passes it")
    source: str = Field(description="Where it was reported")
    fixed: str = Field(description="The first release without the bug, or `open`")
    subjects: list[Subject] = Field(default=[], description="What it is about, the most important subject first")
    driver: Literal["cores", "files", "world"] = Field(
        description="What the scenario runs on: the bare protocol, real log and snapshot files, or a whole cluster"
    )
    peers: int
    brokers: int = 0
    expected: Literal["held"] = Field(default="held", description="Its expected verdict")
    outage: Outage | None = Field(default=None, description="What it shows with which bug; null if it has none")
    switches: list[str] = Field(description="The historical switches of its bug")
    live: bool = Field(description="Whether it can run on real processes (`zabka scenarios run NAME --live`)")
    live_obstacle: str | None = Field(description="Why not")
    running_obstacle: str | None = Field(
        default=None,
        description="Why it cannot run on a running cluster such as this one; null if it can",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_a_script(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("shows"):
            settings = value.get("bug", {})
            outage = {"settings": settings, "shows": value["shows"], "label": variant_label(settings)}
            return {**value, "outage": outage}
        return value


class NewScenarioRun(Body):
    """Options for running a scenario; every field is optional."""

    model_config = ConfigDict(json_schema_extra={"example": {"seed": 7}})

    seed: int | None = Field(
        default=None, ge=0, lt=1 << 63,
        description="Seed of the message delays, instead of the scenario's own; no effect over the bare protocol",
    )  # fmt: skip
    switches: list[Historical] = Field(
        default=[], max_length=len(Historical), description="Old behaviours of Kafka to switch on"
    )
    settings: dict[Text, Text] = Field(
        default={}, max_length=SETTINGS_MAX, description="ZooKeeper and Kafka keys that override those of the scenario"
    )

    keep: bool = Field(default=False, description="Store the run, and its run with the bug as a second one")
    live: bool = Field(
        default=False,
        description="Run on this cluster: the run breaks and restores it, and its topics get new names.  Cannot be "
        "combined with the other fields",
    )

    @field_validator("settings", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return as_texts(value)

    @model_validator(mode="after")
    def _once(self) -> NewScenarioRun:
        if self.switches and HISTORICAL_KEY in self.settings:
            raise ValueError(f"give switches, or {HISTORICAL_KEY} among the settings, not both")
        if self.live and (self.keep or self.seed is not None or self.pairs()):
            raise ValueError("a live run accepts no seed and no settings, and is not stored separately")
        return self

    def pairs(self) -> list[str]:
        """Return all settings in the form of `--set` arguments."""
        switched = {HISTORICAL_KEY: ",".join(self.switches)} if self.switches else {}
        return [f"{key}={value}" for key, value in {**self.settings, **switched}.items()]


SEEDS = (
    "chaos", "calm", "requests", "ensemble", "reconfiguring", "read-only", "disks", "swarm", "swarm-ensemble",
    "swarm-disks", "whole", "whole-cluster",
)  # fmt: skip
"""Scenarios with random faults that are generated from a seed, under their names in `zabka replay`. A test checks this
list.
"""
OF_WHOLE_PROCESSES = ("whole", "whole-cluster")
"""Scenarios in SEEDS whose servers get their complete configuration from the seed."""


class NewSeedRun(Body):
    """Options for running a seed; every field is optional."""

    model_config = ConfigDict(json_schema_extra={"example": {"scenario": "chaos"}})

    scenario: str = Field(default="chaos", description="Source of the random faults: " + ", ".join(SEEDS))
    settings: dict[Text, Text] = Field(default={}, max_length=SETTINGS_MAX, description="ZooKeeper and Kafka keys")

    @field_validator("settings", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return as_texts(value)

    @field_validator("scenario")
    @classmethod
    def _drawn(cls, value: str) -> str:
        if value not in SEEDS:
            raise ValueError(f"there is no scenario {value!r} with random faults; there are {', '.join(SEEDS)}")
        return value

    def pairs(self) -> list[str]:
        """Return all settings in the form of `--set` arguments."""
        return [f"{key}={value}" for key, value in self.settings.items()]


NodeName = Annotated[str, Field(pattern=r"^(broker|peer)-[1-9][0-9]{0,9}$")]
FaultName = Annotated[str, Field(pattern=r"^f[1-9][0-9]{0,8}$")]


class NewFork(Body):
    """A change in a stored run of a seed, or in a fork.

    Give nodes to kill or pause at a moment, faults to leave out, or settings.
    """

    model_config = ConfigDict(json_schema_extra={"example": {"at": 812, "kill": ["broker-2"]}})

    at: int | None = Field(None, ge=1, description="Event after which the fork differs; `without` needs none")
    kill: list[NodeName] = Field([], max_length=20, description="Nodes that die there")
    pause: list[NodeName] = Field([], max_length=20, description="Nodes that are paused there")
    lasts_ms: int = Field(10_000, gt=0, le=60_000, description="Time after which these nodes return")
    without: list[FaultName] = Field([], max_length=20, description="Faults that are not injected, such as f3")

    settings: dict[Text, Text] = Field(
        {}, max_length=SETTINGS_MAX,
        description="Dynamic keys of all brokers from `at` on; without `at`, any keys, from the start of the run on",
    )  # fmt: skip

    @model_validator(mode="after")
    def _changes(self) -> NewFork:
        if not (self.kill or self.pause or self.without or self.settings):
            raise ValueError("there is no change: give kill, pause, without or settings")
        if self.at is None and (self.kill or self.pause):
            raise ValueError("at is missing: the event after which the nodes are killed or paused")
        return self


class ForkPlay(BaseModel):
    """The output of `zabka what-if --journals`."""

    change: str
    changes: list[dict[str, Any]]
    same: int
    problems: list[str]
    virtual_ms: int
    journal_sha256: str


class SeedPlay(BaseModel):
    """The output of `zabka replay --json` for a seed."""

    problems: list[str]
    virtual_ms: int
    journal_sha256: str


class KeptPlays(BaseModel):
    """Ids of the runs that a scenario run has stored, for `GET /api/v1/runs/{id}`."""

    run: str
    bug: str | None = Field(default=None, description="The run with the bug, if the scenario has one")


class StoryLine(BaseModel):
    """One line of the story of a scenario run."""

    at_ms: int = Field(description="In virtual time")
    who: str = Field(description="`script` for a step of the scenario, otherwise the node")
    text: str


class ScenarioPlay(BaseModel):
    """Result of one run of a scenario, with or without its bug."""

    problems: list[str] = Field(description="What failed")
    virtual_ms: int
    steps: int
    faults: int
    events: int = Field(description="Number of events in its journal")
    decisive: int | None = Field(default=None, description="Number of the event that decides its outcome")
    journal_sha256: str = Field(
        description="Of its journal: the same for the same scenario, seed, settings and version"
    )
    story: list[StoryLine]


class BegunStep(BaseModel):
    """A step of a script on this cluster that has begun."""

    step: int = Field(description="Its number in the script, from 1")
    at_ms: int = Field(description="Time since the script began")
    text: str


Verdict = Annotated[
    Literal["held", "violated"] | None, Field(description="Null until it has ended, and if it could not run")
]


class ScenarioRun(BaseModel):
    """A queued, running or ended scenario run, in the simulated world or on this cluster."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": "r1a2b3c4d", "scenario": "kafka-1211", "seed": 7, "live": False, "switches": [], "settings": {},
                "state": "ended", "requested_ms": 1700000000000, "took_ms": 1510, "expected": "held",
                "verdict": "held", "as_expected": True, "problems": [], "virtual_ms": 13204,
                "journal_sha256": "dbe8efaa80d593cf02c79da1ff692d5835ff98c13e77c5266bfb07c9e5fc0133",
                "story": _STORY, "outage": None, "replay": "zabka scenarios run kafka-1211 --seed 7", "error": None,
                "kept": {"run": "r1a2b3c4d", "bug": "r1a2b3c4d.bug"}, "steps": 9, "begun": [],
            }
        }
    )  # fmt: skip

    id: str
    scenario: str = Field(
        description="Name of the scenario; for a seed, the source of its random faults; for a scenario file, NAME.json"
    )
    seed: int | None = Field(description="As requested; null for the scenario's own")
    live: bool = Field(default=False, description="On this cluster, not in the simulated world")
    switches: list[str]
    settings: dict[str, str]
    state: Literal["queued", "running", "ended"]
    requested_ms: int = Field(description="By this server's clock")
    took_ms: int | None = Field(default=None, description="How long the run took")
    expected: Literal["held"] = "held"
    verdict: Verdict = None
    as_expected: bool | None = None
    problems: list[str] = Field(default=[], description="What was not as expected")
    virtual_ms: int | None = None
    journal_sha256: str | None = Field(default=None, description="Of the journal of the run without the bug")
    story: list[StoryLine] = Field(default=[], description="Of the run without the bug")
    outage: ScenarioPlay | None = Field(default=None, description="The run with the bug, if the scenario has one")
    replay: str = Field(description="The command that replays it; `--out FILE` writes the journal")
    kept: KeptPlays | None = Field(default=None, description="The stored run; null unless it was to be stored")
    error: str | None = Field(default=None, description="Why it could not run, or could not be stored")
    steps: int | None = Field(default=None, description="Number of steps of a scenario file; null for other runs")
    begun: list[BegunStep] = Field(default=[], description="On this cluster: the steps that have begun")
