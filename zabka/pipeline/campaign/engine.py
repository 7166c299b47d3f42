"""A campaign from its first run to its answer: who plays is given, so that Spark is one way and this process another.

The runs of a look go out together, seed by seed, and each is kept when it comes back.  Between looks the rule of
`stopping` says whether the answer is clear.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from zabka.pipeline.campaign.definition import Campaign
from zabka.pipeline.campaign.ledger import Ledger
from zabka.pipeline.campaign.play import Played, Run
from zabka.pipeline.campaign.statistics import seeds_to_differ
from zabka.pipeline.campaign.stopping import Comparison, compare, is_clear, level_of

Keep = Callable[[bytes], object]
Players = Callable[[Sequence[Run], Keep], None]
"""Plays all of these, and hands over each encoded row as it comes, from whatever thread."""


class Progress(NamedTuple):
    """How a campaign stands: runs that are kept, of how many at most, and what the last one was."""

    done: int
    most: int
    played: Played | None


class Ended(NamedTuple):
    """How a campaign ended: after how many seeds, at which look of how many, and why."""

    seeds: list[int]
    look: int
    looks: int
    reason: str


class NotPlayed(Exception):
    """Runs that were asked for have not come back; the message says how many, and of what they are."""


def by_point(runs: Mapping[tuple[int, int], Played], figure: str, seeds: Sequence[int]) -> dict[int, dict[int, float]]:
    """A figure's values of these seeds: by point, then by seed; runs without that figure are left out."""
    wanted = dict.fromkeys(seeds)
    found: dict[int, dict[int, float]] = {}
    for (point, seed), played in sorted(runs.items()):
        values = found.setdefault(point, {})
        value = played.figures.get(figure)
        if seed in wanted and value is not None:
            values[seed] = value
    return found


def seeds_wanted(campaign: Campaign) -> int:
    """With fewer seeds than these a campaign cannot tell any difference from chance, however large it is."""
    level = level_of(campaign.stop.confidence, len(campaign.look_sizes()), len(campaign.points()))
    return seeds_to_differ(level)


def comparisons(campaign: Campaign, runs: Mapping[tuple[int, int], Played], seeds: Sequence[int]) -> list[Comparison]:
    """What these seeds tell of the figure that decides."""
    return compare(
        by_point(runs, campaign.decide, seeds),
        confidence=campaign.stop.confidence,
        looks=len(campaign.look_sizes()),
        equal_within=campaign.stop.equal_within,
    )


def run_campaign(
    campaign: Campaign, ledger: Ledger, players: Players, tell: Callable[[Progress], None] = lambda progress: None
) -> Ended:
    """Play what is missing, look by look, until the answer is clear, the seeds are played, or time is up.

    Raises NotPlayed where runs do not come back, for whatever reason: what is told of seeds rests on all of them.
    """
    points, seeds, looks = campaign.points(), list(campaign.seed_numbers()), campaign.look_sizes()
    most = len(points) * len(seeds)
    begin = time.monotonic()
    tell(Progress(len(ledger.runs), most, None))

    def keep(line: bytes) -> None:
        played = ledger.keep(line)
        if played is not None:
            tell(Progress(len(ledger.runs), most, played))

    for look, count in enumerate(looks, start=1):
        now = seeds[:count]
        missing = [
            Run(number, seed, campaign.scenario, campaign.arguments(point))
            for seed in now
            for number, point in enumerate(points)
            if (number, seed) not in ledger.runs
        ]
        if missing:
            players(missing, keep)
        if lost := [run for run in missing if (run.point, run.seed) not in ledger.runs]:
            raise NotPlayed(f"{len(lost)} of {len(missing)} runs did not come back or could not be kept, such as "
                            f"`{lost[0].command}`; the same command plays them again")  # fmt: skip
        if look == len(looks):
            return Ended(now, look, len(looks), "every seed was played")
        if is_clear(comparisons(campaign, ledger.runs, now)):
            return Ended(now, look, len(looks), "the answer was clear")
        if campaign.limits.minutes and time.monotonic() - begin > 60 * campaign.limits.minutes:
            return Ended(now, look, len(looks), f"the limit of {campaign.limits.minutes:g} minutes was reached")
    raise AssertionError("there is always a last look")
