"""State of a campaign in the file `standing.json`, for programs that show its runs and its report.

The file is written before the first run and after the last one. Between them, the lines of `runs.jsonl` show the
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
    """Question and size of a campaign, and its result when it has ended."""

    question: str
    settings: int
    seeds: int
    ended: str | None = None
    """Why the campaign ended; None while it is running, or if it was stopped."""
    answer: list[str] = []
    violations: int = 0
    """Number of runs that violated an invariant."""


def begun(campaign: Campaign) -> Standing:
    """Return the state of a running campaign."""
    seeds = len(campaign.seed_numbers())
    return Standing(question=campaign.question, settings=len(campaign.points()), seeds=seeds)


def ended(found: Results) -> Standing:
    """Return the state of a campaign that has ended with these results."""
    stands = begun(found.campaign)
    stands.seeds = len(found.ended.seeds)
    stands.ended, stands.answer, stands.violations = found.ended.reason, answer(found), len(found.violating)
    return stands


def write(directory: Path, stands: Standing) -> None:
    """Write the campaign's state into `directory`, atomically."""
    aside = directory / f".{STANDING}"
    aside.write_bytes(msgspec.json.encode(stands))
    aside.replace(directory / STANDING)
