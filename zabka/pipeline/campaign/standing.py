"""How a campaign stands, for whoever shows it beside its runs and its report: `standing.json`.

It is written before the first run and after the last one; in between the lines of `runs.jsonl` say how far it is.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from zabka.pipeline.campaign.answer import answer
from zabka.pipeline.campaign.definition import Campaign
from zabka.pipeline.campaign.results import Results

STANDING = "standing.json"


class Standing(msgspec.Struct, kw_only=True):
    """What is asked, how much is to be played, and, once it has ended, what came of it."""

    question: str
    settings: int
    seeds: int
    ended: str | None = None
    """Why it ended; None while it goes on, and of one that was stopped."""
    answer: list[str] = []
    violations: int = 0
    """Runs that broke an invariant."""


def begun(campaign: Campaign) -> Standing:
    """How a campaign stands that is under way."""
    seeds = len(campaign.seed_numbers())
    return Standing(question=campaign.question, settings=len(campaign.points()), seeds=seeds)


def ended(found: Results) -> Standing:
    """How one stands that has its answer."""
    stands = begun(found.campaign)
    stands.seeds = len(found.ended.seeds)
    stands.ended, stands.answer, stands.violations = found.ended.reason, answer(found), len(found.violating)
    return stands


def write(directory: Path, stands: Standing) -> None:
    """Write it down, at once and whole."""
    aside = directory / f".{STANDING}"
    aside.write_bytes(msgspec.json.encode(stands))
    aside.replace(directory / STANDING)
