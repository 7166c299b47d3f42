"""Reads a campaign's TOML file: a question, the settings to compare, the seeds, what to measure, and when to stop."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from zabka.pipeline.campaign.design import Range, check_design, grid_points, hypercube_points
from zabka.pipeline.campaign.figures import FIGURES
from zabka.pipeline.campaign.statistics import FINEST_P
from zabka.pipeline.campaign.stopping import level_of
from zabka.simulation.run import SCENARIOS
from zabka.simulation.seeds.chaos import check_played
from zabka.simulation.settings import BadSetting, world_settings

Value = str | int | float | bool
_SEEDS = re.compile(r"[0-9]{1,18}(-[0-9]{1,18})?")


class BadCampaign(Exception):
    """A campaign's file is not valid. The message states where and why."""


class Hypercube(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A Latin hypercube: the range of each key is divided into `points` strata, and each stratum is used once."""

    points: int
    keys: dict[str, list[Value] | Range]
    seed: int = 0


class Stop(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Rules for ending a campaign: sample sizes of the interim analyses, and differences that do not matter."""

    equal_within: float | dict[str, float] = 0.0
    """Maximum difference that does not matter: one number for the deciding figure, or numbers keyed by figure."""
    confidence: float = 0.95
    looks: list[int] = []
    """Numbers of seeds after which the figures are evaluated.

    The last evaluation is always after all seeds; by default it is the only one.
    """


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Limits for the cost of a campaign."""

    runs: int = 2_000
    minutes: float = 0.0
    """Number of minutes after which no further interim analysis begins; 0 means no limit."""


class Campaign(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Content of a campaign's file."""

    question: str
    seeds: str
    decide: str
    """Name of the figure (computed number) that answers the campaign's question."""
    also: list[str] = []
    """Names of other figures to report.

    If one of them gets worse with the best setting, this is the cost of the setting.
    """
    scenario: str = "chaos"
    settings: dict[str, Value] = {}
    grid: dict[str, list[Value]] = {}
    latin_hypercube: Hypercube | None = None
    baseline: dict[str, Value] = {}
    """The setting with which all others are compared; by default the first one."""
    stop: Stop = Stop()
    limits: Limits = Limits()

    def seed_numbers(self) -> range:
        """Return the seeds as a range. In the file, both bounds are inclusive."""
        first, _, last = self.seeds.partition("-")
        return range(int(first), int(last or first) + 1)

    def points(self) -> list[dict[str, str]]:
        """Return every compared setting, the baseline first.

        Each setting contains only the keys whose values differ between the settings.
        """
        cube = self.latin_hypercube
        points = hypercube_points(cube.keys, cube.points, cube.seed) if cube else grid_points(self.grid)
        requested = _texts(self.baseline)
        found = next((p for p in points if requested and requested.items() <= p.items()), None)
        return points if found is None else [found, *(p for p in points if p is not found)]

    def arguments(self, point: Mapping[str, str]) -> tuple[str, ...]:
        """Return the complete settings of a point, in the form of the option `--set`."""
        return tuple(f"{key}={value}" for key, value in {**_texts(self.settings), **point}.items())

    def equal_within(self, figure: str) -> float:
        """Return the largest difference of a figure that still counts as equal; 0 if the file does not define it."""
        given = self.stop.equal_within
        if isinstance(given, dict):
            return given.get(figure, 0.0)
        return given if figure == self.decide else 0.0

    def look_sizes(self) -> list[int]:
        """Return the numbers of seeds after which the figures are evaluated."""
        count = len(self.seed_numbers())
        return [*(look for look in self.stop.looks if look < count), count]


def _texts(values: Mapping[str, Value]) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}


def read_campaign(path: Path) -> Campaign:
    """Read and validate a campaign's file. Raises BadCampaign with the reason."""
    try:
        return parse_campaign(path.read_text())
    except OSError as reason:
        raise BadCampaign(f"{path}: {reason.strerror or reason}") from None
    except UnicodeDecodeError as reason:
        raise BadCampaign(f"{path}: no UTF-8 at byte {reason.start}") from None
    except BadCampaign as reason:
        raise BadCampaign(f"{path}: {reason}") from None


def parse_campaign(text: str) -> Campaign:
    """Parse and validate a campaign in TOML. Raises BadCampaign."""
    try:
        raw: dict[str, Any] = tomllib.loads(text)
        campaign = msgspec.convert(raw, Campaign)
    except tomllib.TOMLDecodeError as reason:
        raise BadCampaign(f"no TOML: {reason}") from None
    except msgspec.ValidationError as reason:
        raise BadCampaign(str(reason)) from None
    _check(campaign)
    return campaign


def _check(campaign: Campaign) -> None:
    first, dash, last = campaign.seeds.partition("-")
    if not _SEEDS.fullmatch(campaign.seeds) or (dash and int(last) < int(first)):
        raise BadCampaign(f'seeds = "{campaign.seeds}": A-B is wanted, both ends included, such as "1-24"')
    for name in (campaign.decide, *campaign.also):
        if name not in FIGURES:
            raise BadCampaign(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    if campaign.scenario not in SCENARIOS:
        raise BadCampaign(f"there is no scenario {campaign.scenario!r}; there are {', '.join(SCENARIOS)}")
    if bool(campaign.grid) == (campaign.latin_hypercube is not None):
        raise BadCampaign("a campaign compares settings: give a [grid], or a [latin_hypercube], and not both")
    cube = campaign.latin_hypercube
    try:
        check_design(campaign.grid if cube is None else cube.keys, 1 if cube is None else cube.points)
    except ValueError as reason:
        raise BadCampaign(str(reason)) from None
    _check_stop(campaign)
    # Count before creating the points, because a grid of a few keys can exceed the machine's memory.
    count = cube.points if cube is not None else math.prod(len(values) for values in campaign.grid.values())
    seeds = len(campaign.seed_numbers())
    if count * seeds > campaign.limits.runs:
        raise BadCampaign(f"{count} settings x {seeds} seeds are {count * seeds} runs; "
                          f"limits.runs is {campaign.limits.runs}")  # fmt: skip
    _check_level(campaign, count)
    points = campaign.points()
    if (different := len({tuple(point.items()) for point in points})) < count:
        raise BadCampaign(f"the {count} points of the hypercube are only {different} different settings: "
                          f"fewer points, wider ranges, or another seed are wanted")  # fmt: skip
    requested = _texts(campaign.baseline)
    if requested and not requested.items() <= points[0].items():
        raise BadCampaign(f"baseline: no point of the campaign has {requested}")
    for point in points:
        _check_point(campaign, point)


def _check_stop(campaign: Campaign) -> None:
    stop = campaign.stop
    if not 0.5 <= stop.confidence < 1:
        raise BadCampaign(f"stop.confidence = {stop.confidence}: at least 0.5 and less than 1 is wanted")
    sizes = stop.equal_within if isinstance(stop.equal_within, dict) else {campaign.decide: stop.equal_within}
    if any(not 0 <= size < math.inf for size in sizes.values()):
        raise BadCampaign(f"stop.equal_within = {stop.equal_within}: a number that is no less than 0 is wanted")
    if other := [name for name in sizes if name not in (campaign.decide, *campaign.also)]:
        raise BadCampaign(f"stop.equal_within: {other[0]!r} is neither decide nor in also")
    if any(look < 2 for look in stop.looks) or stop.looks != sorted(set(stop.looks)):
        raise BadCampaign(f"stop.looks = {stop.looks}: numbers of seeds that rise are wanted, from 2 on")
    seeds = len(campaign.seed_numbers())
    if stop.looks and stop.looks[-1] > seeds:
        raise BadCampaign(f"stop.looks = {stop.looks}: there are only {seeds} seeds to look at")
    if not 0 <= campaign.limits.minutes < math.inf:
        raise BadCampaign(f"limits.minutes = {campaign.limits.minutes}: a number that is no less than 0 is wanted")


def _check_level(campaign: Campaign, points: int) -> None:
    looks = len(campaign.look_sizes())
    level = level_of(campaign.stop.confidence, looks, points)
    if level < FINEST_P:
        raise BadCampaign(
            f"stop.confidence = {campaign.stop.confidence} shared out among looks ({looks}) and comparisons "
            f"({points - 1}) asks for p-values of {level:.1g}, and none is told below {FINEST_P:.1g}: no difference "
            "could ever be seen, so a lower confidence, fewer looks or fewer settings are wanted"
        )


def _check_point(campaign: Campaign, point: Mapping[str, str]) -> None:
    arguments = campaign.arguments(point)
    try:
        check_played(campaign.scenario, world_settings(arguments), (a.partition("=")[0] for a in arguments))
    except BadSetting as reason:
        raise BadCampaign(f"{describe(point)}: {reason}") from None


def describe(point: Mapping[str, str]) -> str:
    """Format a setting as `key=value, key=value`."""
    return ", ".join(f"{key}={value}" for key, value in point.items())
