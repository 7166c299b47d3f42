"""Runs a campaign, from its first run to its result. The caller passes the function that executes the runs.

Spark or this process executes the runs (`Players`). The runs of an interim analysis are submitted together, seed by
seed, and each result is stored as it arrives. After each interim analysis the rule of `stopping` decides whether the
result is clear.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from zabka.pipeline.campaign.definition import Campaign
from zabka.pipeline.campaign.ledger import Ledger
from zabka.pipeline.campaign.play import Played, Run
from zabka.pipeline.campaign.statistics import seeds_to_differ
from zabka.pipeline.campaign.stopping import Comparison, compare, cost_level, is_clear, level_of

Keep = Callable[[bytes], object]
Players = Callable[[Sequence[Run], Keep], None]
"""Function that executes all of these runs, and passes each encoded row to `Keep` as it arrives, from any thread."""


class Progress(NamedTuple):
    """Progress of a campaign: the number of stored runs, the maximum number of runs, and the last run."""

    done: int
    most: int
    played: Played | None


class Ended(NamedTuple):
    """End of a campaign: the seeds used, the last and the planned number of interim analyses, and the reason."""

    seeds: list[int]
    look: int
    looks: int
    reason: str


class NotPlayed(Exception):
    """Some requested runs were not returned. The message gives their number and an example."""


def by_point(runs: Mapping[tuple[int, int], Played], figure: str, seeds: Sequence[int]) -> dict[int, dict[int, float]]:
    """Return the values of a figure for these seeds, by point and then by seed. Runs without the figure are skipped."""
    chosen = dict.fromkeys(seeds)
    found: dict[int, dict[int, float]] = {}
    for (point, seed), played in sorted(runs.items()):
        values = found.setdefault(point, {})
        value = played.figures.get(figure)
        if seed in chosen and value is not None:
            values[seed] = value
    return found


def seeds_needed(campaign: Campaign) -> int:
    """Return the minimum number of seeds with which a difference can be statistically significant.

    With fewer seeds, even the largest difference is not significant.
    """
    level = level_of(campaign.stop.confidence, len(campaign.look_sizes()), len(campaign.points()))
    return seeds_to_differ(level)


def comparisons(campaign: Campaign, runs: Mapping[tuple[int, int], Played], seeds: Sequence[int]) -> list[Comparison]:
    """Compare the deciding figure of every point with the baseline, on these seeds."""
    level = level_of(campaign.stop.confidence, len(campaign.look_sizes()), len(campaign.points()))
    return _compared(campaign, runs, seeds, campaign.decide, level)


def costs(
    campaign: Campaign, runs: Mapping[tuple[int, int], Played], seeds: Sequence[int]
) -> dict[str, list[Comparison]]:
    """Compare every point of the campaign with the baseline in every figure of `also`, on these seeds."""
    level = cost_level(campaign.stop.confidence, len(campaign.look_sizes()), len(campaign.also))
    return {figure: _compared(campaign, runs, seeds, figure, level) for figure in campaign.also}


def _compared(
    campaign: Campaign, runs: Mapping[tuple[int, int], Played], seeds: Sequence[int], figure: str, level: float
) -> list[Comparison]:
    return compare(by_point(runs, figure, seeds), level=level, equal_within=campaign.equal_within(figure))


def _is_answered(campaign: Campaign, runs: Mapping[tuple[int, int], Played], seeds: Sequence[int]) -> bool:
    """Return whether these seeds are enough to compare every figure that the campaign names."""
    return is_clear(comparisons(campaign, runs, seeds)) and all(
        is_clear(compared) for compared in costs(campaign, runs, seeds).values()
    )


def run_campaign(
    campaign: Campaign, ledger: Ledger, players: Players, progress: Callable[[Progress], None] = lambda progress: None
) -> Ended:
    """Execute the missing runs until the result is clear, all seeds have been run, or time is up.

    Evaluate the figures after each interim analysis. Raises NotPlayed if some runs are not returned, for whatever
    reason, because the comparison needs all runs of a seed.
    """
    points, seeds, looks = campaign.points(), list(campaign.seed_numbers()), campaign.look_sizes()
    most = len(points) * len(seeds)
    begin = time.monotonic()
    progress(Progress(len(ledger.runs), most, None))

    def keep(line: bytes) -> None:
        played = ledger.keep(line)
        if played is not None:
            progress(Progress(len(ledger.runs), most, played))

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
        if _is_answered(campaign, ledger.runs, now):
            return Ended(now, look, len(looks), "the answer was clear")
        if campaign.limits.minutes and time.monotonic() - begin > 60 * campaign.limits.minutes:
            return Ended(now, look, len(looks), f"the limit of {campaign.limits.minutes:g} minutes was reached")
    raise AssertionError("there is always a last look")
