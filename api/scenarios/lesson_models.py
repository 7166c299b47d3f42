"""The JSON shapes of lessons, with examples."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.runs.run_models import WhyStep


class LessonTold(BaseModel):
    """A lesson without its answer.  A run of its scenario decides which answer is right."""

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
    """The answer to a lesson, from a run."""

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
