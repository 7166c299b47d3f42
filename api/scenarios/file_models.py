"""JSON request and response models of scenario files: running one, and recording one."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.views.models import Body, Text
from zabka.simulation.scenarios.subjects import Subject

STEPS_MAX = 1_000
NODES_MAX = 100
_STEPS: list[Any] = [
    {"type": "At", "ms": 5_000},
    {"type": "Kill", "nodes": ["broker-2"]},
    {"type": "At", "ms": 8_000},
    {"type": "Split", "sides": [["broker-1", "peer-1"], ["broker-3", "peer-2", "peer-3"]]},
    {"type": "At", "ms": 20_000},
    {"type": "Heal"},
]
_FILE: dict[str, Any] = {
    "driver": "world", "name": "two-faults", "title": "A broker dies, then the network splits",
    "hypothesis": "The cluster recovers.", "subjects": ["network"], "peers": 3, "brokers": 3, "steps": _STEPS,
}  # fmt: skip


class ScenarioFile(BaseModel):
    """A scenario of a whole cluster, as `zabka scenarios run FILE` reads it. The player checks its steps."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": _FILE})

    driver: Literal["world"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,99}$", description="Lower-case letters, digits, dots and dashes")
    title: Text = Field(max_length=300)
    hypothesis: Text = Field(default="", max_length=2_000, description="What must hold")
    source: Text = Field(default="", max_length=300)
    fixed: Text = Field(default="", max_length=300)
    subjects: list[Subject] = Field(default=[], max_length=20)
    peers: int = Field(default=3, ge=1, le=NODES_MAX)
    brokers: int = Field(default=0, ge=0, le=NODES_MAX)
    bug: dict[Text, Text] = Field(default={}, max_length=50)
    shows: Text = Field(default="", max_length=300)
    steps: list[dict[str, Any]] = Field(max_length=STEPS_MAX, description="Each has a `type`, such as Kill")


class NewFileRun(Body):
    """A scenario file to run, and where."""

    model_config = ConfigDict(json_schema_extra={"example": {"scenario": _FILE, "live": True}})

    scenario: ScenarioFile
    live: bool = Field(
        default=False, description="Run on this cluster, which is restored afterwards; else in the simulated world"
    )
    keep: bool = Field(default=False, description="Store the run. Cannot be combined with `live`")


class RecordedScript(BaseModel):
    """Faults of a recorded span as a scenario file."""

    model_config = ConfigDict(json_schema_extra={"example": {"scenario": _FILE, "left_out": []}})

    scenario: ScenarioFile
    left_out: list[str] = Field(description="Faults that no step of a script can inject, each with the reason")
