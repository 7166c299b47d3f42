"""The JSON shapes of lessons, with examples."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.runs.run_models import WhyStep


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
