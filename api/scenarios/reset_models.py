"""JSON request and response models of resets of the cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.views.models import Body, Text

KEPT_MAX = 100
Names = Annotated[list[Text], Field(max_length=KEPT_MAX)]
StepName = Literal["scripts", "workloads", "faults", "nodes", "cluster", "topics", "groups", "leaders"]


class NewReset(Body):
    """The topics and groups that a reset does not delete."""

    model_config = ConfigDict(json_schema_extra={"example": {"keep_topics": ["orders"]}})

    keep_topics: Names = []
    keep_groups: Names = []


class ResetStep(BaseModel):
    """One step of a reset."""

    name: StepName
    text: str = Field(description="What the step does")
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    detail: str = Field(default="", description="What it changed, or why it failed")


class Reset(BaseModel):
    """A reset of the cluster, and its steps in order."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": "z1a2b3c4d", "state": "running", "requested_ms": 1700000000000, "took_ms": None,
                "steps": [{"name": "faults", "text": "remove all faults", "state": "done", "detail": "2 faults"}],
            }
        }
    )  # fmt: skip

    id: str
    state: Literal["running", "done", "failed"]
    requested_ms: int = Field(description="By this server's clock")
    took_ms: int | None = None
    steps: list[ResetStep]
