"""The JSON shapes of the outage library, with examples."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from zabka.api.runs.run_models import WhyStep
from zabka.api.views.models import Body, Text, as_texts
from zabka.controller.historical import HISTORICAL_KEY, Historical

SETTINGS_MAX = 50
_STORY: list[Any] = [
    {"at_ms": 1171, "who": "script", "text": "kill second (broker-1)"},
    {"at_ms": 6515, "who": "broker-2", "text": "orders-0: broker 3 leads, leader epoch 1, ISR 3, 4"},
]
_BUG: dict[str, Any] = {HISTORICAL_KEY: "truncate-to-high-watermark"}


class LessonTold(BaseModel):
    """A lesson as it is asked.  Which answer is right, a play tells."""

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
    scenario: str = Field(description="The script of the outage library that plays it")
    question: str
    answers: list[str] = Field(description="What can be predicted")
    with_bug: bool = Field(description="Is the question about the play of the script with its bug?")


class LessonRevealed(BaseModel):
    """What came to pass in a play."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "run": "r1a2b3c4d", "pair": None, "seq": 812, "right": 1,
                "look_at": "The partition's lanes.", "explanation": "Every member of the ISR has all of it.",
                "chain": [], "beginning": {"seq": 640, "told": "crash broker-1 → broker-1"},
            }
        }
    )  # fmt: skip

    run: str = Field(description="The run that the question is about")
    pair: str | None = Field(description="The same script with its bug, or without it, where it is kept")
    seq: int = Field(description="The moment to look at")
    right: int = Field(description="Which of the answers is right, counted from 0, by this run's history")
    look_at: str
    explanation: str
    chain: list[WhyStep] = Field(description="From the moment's event back to where the written causes end")
    beginning: dict[str, Any] | None = Field(
        description="The fault or the request behind it: its number, and its sentence"
    )


def variant_label(settings: dict[str, str]) -> str:
    """Return how a play with these settings differs from the script: old behaviour is a bug, another key is not."""
    if HISTORICAL_KEY in settings:
        return "with its bug"
    return "with " + (", ".join(f"{key}={value}" for key, value in settings.items()) or "the mistake")


class Outage(BaseModel):
    """What a script shows when its bug is switched on."""

    settings: dict[str, str] = Field(
        description="The bug, as `--set` takes it; `acks` is the producer's.  Empty where it is what somebody did"
    )
    shows: str = Field(description="What must be seen to go wrong then")
    label: str = Field(
        default="with its bug",
        description="How this play differs: `with its bug`, `with KEY=VALUE`, `with the mistake`",
    )


class Scenario(BaseModel):
    """One script of the outage library."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "kafka-1211", "title": "A follower cuts off what it was told to be committed",
                "hypothesis": "A follower truncates where its log and its leader's part, which its high watermark "
                "does not tell.",
                "source": "KAFKA-1211, KIP-101", "fixed": "0.11.0.0", "driver": "world", "peers": 3, "brokers": 4,
                "expected": "held", "outage": {"settings": _BUG, "shows": "lost write"},
                "switches": ["truncate-to-high-watermark"], "live": True, "live_obstacle": None,
                "running_obstacle": None,
            }
        }
    )  # fmt: skip

    name: str
    title: str = Field(description="What went wrong")
    hypothesis: str = Field(description="Why it holds here")
    source: str = Field(description="Where it was seen")
    fixed: str = Field(description="The first release without it, or `open`")
    driver: Literal["cores", "files", "world"] = Field(
        description="A script over the bare protocol, over real log and snapshot files, or over a whole cluster"
    )
    peers: int
    brokers: int = 0
    expected: Literal["held"] = Field(default="held", description="The verdict that is expected of it")
    outage: Outage | None = Field(
        default=None, description="What it shows, with which bug; null where it has none to show"
    )
    switches: list[str] = Field(description="The historical switches that make up its bug")
    live: bool = Field(description="Can it be played over real processes (`zabka scenarios run NAME --live`)?")
    live_obstacle: str | None = Field(description="Why not")
    running_obstacle: str | None = Field(
        default=None,
        description="Why it cannot be played on a cluster that runs, such as this one; null: it can",
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
    """How to play a script; all of it may be left out."""

    model_config = ConfigDict(json_schema_extra={"example": {"seed": 7}})

    seed: int | None = Field(
        default=None, ge=0, lt=1 << 63,
        description="Draws other delays than the script's own seed; over the bare protocol nothing is left to it",
    )  # fmt: skip
    switches: list[Historical] = Field(default=[], max_length=len(Historical), description="Old behaviours of Kafka's")
    settings: dict[Text, Text] = Field(
        default={}, max_length=SETTINGS_MAX, description="ZooKeeper's and Kafka's keys, over the script's own"
    )

    keep: bool = Field(default=False, description="Keep it as a run that can be rewound, and with its bug as another")
    live: bool = Field(
        default=False,
        description="On this very cluster, which it breaks and puts right again; its topics get names of their own.  "
        "Nothing else can be asked for with it",
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
            raise ValueError("a script that is played live takes no seed and no settings, and its run is the live one")
        return self

    def pairs(self) -> list[str]:
        """Everything that is to be set, as `--set` takes it."""
        switched = {HISTORICAL_KEY: ",".join(self.switches)} if self.switches else {}
        return [f"{key}={value}" for key, value in {**self.settings, **switched}.items()]


SEEDS = (
    "chaos", "calm", "ensemble", "reconfiguring", "read-only", "disks", "swarm", "swarm-ensemble", "swarm-disks",
    "whole", "whole-cluster",
)  # fmt: skip
"""The scenarios whose faults are drawn from a seed, as `zabka replay` names them; a test compares."""
OF_WHOLE_PROCESSES = ("whole", "whole-cluster")
"""Those of them whose servers are configured by the seed alone."""


class NewSeedRun(Body):
    """A seed to be played; all of it may be left out."""

    model_config = ConfigDict(json_schema_extra={"example": {"scenario": "chaos"}})

    scenario: str = Field(default="chaos", description="One whose faults are drawn: " + ", ".join(SEEDS))
    settings: dict[Text, Text] = Field(default={}, max_length=SETTINGS_MAX, description="ZooKeeper's and Kafka's keys")

    @field_validator("settings", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return as_texts(value)

    @field_validator("scenario")
    @classmethod
    def _drawn(cls, value: str) -> str:
        if value not in SEEDS:
            raise ValueError(f"there is no scenario {value!r} that draws its faults; there are {', '.join(SEEDS)}")
        return value

    def pairs(self) -> list[str]:
        """Everything that is to be set, as `--set` takes it."""
        return [f"{key}={value}" for key, value in self.settings.items()]


class SeedPlay(BaseModel):
    """What `zabka replay --json` says of a seed."""

    problems: list[str]
    virtual_ms: int
    journal_sha256: str


class KeptPlays(BaseModel):
    """The runs that a play was kept as: `GET /api/v1/runs/{id}`."""

    run: str
    bug: str | None = Field(default=None, description="With its bug, where it has one to show")


class StoryLine(BaseModel):
    """One line of a story."""

    at_ms: int = Field(description="In virtual time")
    who: str = Field(description="`script` of a step, else the node that it happened to")
    text: str


class ScenarioPlay(BaseModel):
    """One time that a script was played."""

    problems: list[str] = Field(description="What did not hold")
    virtual_ms: int
    steps: int
    faults: int
    events: int = Field(description="The length of its journal")
    decisive: int | None = Field(
        default=None, description="The number of the event at which its outcome is settled, in its journal"
    )
    journal_sha256: str = Field(description="Of its journal: the same for the same script, seed, settings and version")
    story: list[StoryLine]


Verdict = Annotated[
    Literal["held", "violated"] | None, Field(description="Null until it has ended, and where it could not be played")
]


class ScenarioRun(BaseModel):
    """A script that waits, is played, or was played: in the simulated world, or on this cluster."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": "r1a2b3c4d", "scenario": "kafka-1211", "seed": 7, "live": False, "switches": [], "settings": {},
                "state": "ended", "requested_ms": 1700000000000, "took_ms": 1510, "expected": "held",
                "verdict": "held", "as_expected": True, "problems": [], "virtual_ms": 13204,
                "journal_sha256": "dbe8efaa80d593cf02c79da1ff692d5835ff98c13e77c5266bfb07c9e5fc0133",
                "story": _STORY, "outage": None, "replay": "zabka scenarios run kafka-1211 --seed 7", "error": None,
                "kept": {"run": "r1a2b3c4d", "bug": "r1a2b3c4d.bug"},
            }
        }
    )  # fmt: skip

    id: str
    scenario: str = Field(description="A script's name, or of a seed the scenario that draws its faults")
    seed: int | None = Field(description="As it was asked for; null for the script's own")
    live: bool = Field(default=False, description="On this very cluster, and not in the simulated world")
    switches: list[str]
    settings: dict[str, str]
    state: Literal["queued", "running", "ended"]
    requested_ms: int = Field(description="By this server's clock")
    took_ms: int | None = Field(default=None, description="How long the player ran")
    expected: Literal["held"] = "held"
    verdict: Verdict = None
    as_expected: bool | None = None
    problems: list[str] = Field(default=[], description="What was not as expected")
    virtual_ms: int | None = None
    journal_sha256: str | None = Field(default=None, description="Of the journal of the script as it is")
    story: list[StoryLine] = Field(default=[], description="Of the script as it is")
    outage: ScenarioPlay | None = Field(
        default=None, description="The same script with its bug, where it has one to show"
    )
    replay: str = Field(description="The command that plays it again; `--out FILE` writes the journal")
    kept: KeptPlays | None = Field(default=None, description="Where it can be rewound; null unless it was to be kept")
    error: str | None = Field(default=None, description="Why it could not be played, or not be kept")
