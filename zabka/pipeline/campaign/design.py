"""Creates the settings that a campaign compares: every combination (a grid), or a Latin hypercube."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random

import msgspec

POINTS_MAX = 500


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"first": "from", "last": "to"}):
    """An inclusive range of integers."""

    first: int
    last: int


Value = str | int | float | bool


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_design(keys: Mapping[str, Sequence[Value] | Range], points: int) -> None:
    """Raise ValueError, with the reason, if no settings can be created from these keys."""
    if not keys:
        raise ValueError("there is no key to vary")
    for key, values in keys.items():
        if isinstance(values, Range):
            if values.last <= values.first:
                raise ValueError(f"{key}: the range from {values.first} to {values.last} is empty")
        elif not values:
            raise ValueError(f"{key}: there is no value to choose from")
        elif len({_text(value) for value in values}) < len(values):
            raise ValueError(f"{key}: a value stands there twice")
    if points < 1 or points > POINTS_MAX:
        raise ValueError(f"points = {points}: 1 to {POINTS_MAX} are wanted")


def grid_points(grid: Mapping[str, Sequence[Value]]) -> list[dict[str, str]]:
    """Return every combination of values; the last key changes fastest."""
    return [dict(zip(grid, map(_text, values), strict=True)) for values in product(*grid.values())]


def hypercube_points(keys: Mapping[str, Sequence[Value] | Range], points: int, seed: int) -> list[dict[str, str]]:
    """Return a Latin hypercube (McKay, Beckman and Conover 1979): each of the `points` strata of a key is used once.

    For a range of numbers, the middle of a stratum is used. The values of a list are distributed to strata as evenly as
    possible.
    """
    random = Random(seed)
    columns: dict[str, list[str]] = {}
    for key, values in keys.items():
        strata = list(range(points))
        random.shuffle(strata)
        columns[key] = [_of_stratum(values, stratum, points) for stratum in strata]
    return [{key: column[number] for key, column in columns.items()} for number in range(points)]


def _of_stratum(values: Sequence[Value] | Range, stratum: int, points: int) -> str:
    if isinstance(values, Range):
        return str(round(values.first + (values.last - values.first) * (stratum + 0.5) / points))
    return _text(values[stratum * len(values) // points])
