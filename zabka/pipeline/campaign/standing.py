"""The state of a campaign, for viewers of its runs and its report: `standing.json`.

The file is written before the first run and after the last one; in between, the lines of `runs.jsonl` show the
progress.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from zabka.pipeline.campaign.answer import answer
from zabka.pipeline.campaign.definition import Campaign
from zabka.pipeline.campaign.results import Results

STANDING = "standing.json"


class Standing(msgspec.Struct, kw_only=True):
    """The question, the size of the campaign, and, after its end, the result."""

    question: str
    settings: int
    seeds: int
    ended: str | None = None
    """The reason why the campaign ended; None while it is running, and if it was stopped."""
    answer: list[str] = []
    violations: int = 0
    """The number of runs that violated an invariant."""


def begun(campaign: Campaign) -> Standing:
    """Return the state of a running campaign."""
    seeds = len(campaign.seed_numbers())
    return Standing(question=campaign.question, settings=len(campaign.points()), seeds=seeds)


def ended(found: Results) -> Standing:
    """Return the state of a campaign that has its result."""
    stands = begun(found.campaign)
    stands.seeds = len(found.ended.seeds)
    stands.ended, stands.answer, stands.violations = found.ended.reason, answer(found), len(found.violating)
    return stands


def write(directory: Path, stands: Standing) -> None:
    """Write the state atomically."""
    aside = directory / f".{STANDING}"
    aside.write_bytes(msgspec.json.encode(stands))
    aside.replace(directory / STANDING)
