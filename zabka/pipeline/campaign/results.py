"""Results of a campaign, and the tables that contain them.

runs          one row per run: its setting, verdict, command, every figure,
              and the measures from which the figures are computed
estimates     one row per setting and figure: the mean over seeds with its interval,
              or for rare events the share of seeds
differences   one row per setting and figure: the paired difference from the baseline, its interval and its p-value
violations    one row per run that violated an invariant, with the command that replays it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from zabka.pipeline.campaign.definition import Campaign, describe
from zabka.pipeline.campaign.engine import Ended, by_point, comparisons, costs
from zabka.pipeline.campaign.figures import FIGURES
from zabka.pipeline.campaign.play import Played
from zabka.pipeline.campaign.statistics import Difference, Estimate, Share, difference, estimate
from zabka.pipeline.campaign.stopping import Comparison, Verdict, rivals


class Results(msgspec.Struct):
    """All results of a campaign. Lists are indexed by the number of the setting (point) in `Campaign.points`."""

    campaign: Campaign
    ended: Ended
    points: list[dict[str, str]]
    runs: list[Played]
    values: dict[str, list[dict[int, float]]]
    """For each figure and point, the value of each seed. All points have values for the same seeds."""
    estimates: dict[str, list[Estimate]]
    differences: dict[str, list[Difference]]
    """For each figure, the difference of every point from point 0, including point 0 itself."""
    comparisons: list[Comparison]
    """Comparisons of every other point with point 0 in the deciding figure."""
    costs: dict[str, list[Comparison]]
    """Comparisons of the figures in `also` with point 0."""
    best: int
    """Index of the point with the best mean of the deciding figure.

    Only the baseline and the points that differ from it are compared.
    """
    rivals: list[int]
    """Points other than the baseline that cannot be distinguished from the best one."""

    def failovers(self, figure: str, point: int) -> int | None:
        """Return the number of failovers from which a point's values are computed; None if the figure has none."""
        behind = FIGURES[figure].failovers
        if behind is None:
            return None
        seeds = self.values[figure][point]
        return sum(len(behind(run.measures)) for run in self.runs if run.point == point and run.seed in seeds)

    @property
    def violating(self) -> list[Played]:
        """Runs that violated an invariant."""
        return [run for run in self.runs if run.problems]


def results(campaign: Campaign, runs: Mapping[tuple[int, int], Played], ended: Ended) -> Results:
    """Estimate every figure and every difference from those seeds that were run at all points."""
    points = campaign.points()
    seeds: dict[str, list[dict[int, float]]] = {}
    estimates: dict[str, list[Estimate]] = {}
    differences: dict[str, list[Difference]] = {}
    confidence = campaign.stop.confidence
    for name in FIGURES:
        values = by_point(runs, name, ended.seeds)
        of = [values.get(number, {}) for number in range(len(points))]
        seeds[name] = same_seeds(of)
        estimates[name] = [estimate(list(each.values()), confidence) for each in seeds[name]]
        differences[name] = [difference(each, of[0], confidence) for each in of]
    played = [runs[key] for key in sorted(runs) if key[1] in ended.seeds]
    compared = comparisons(campaign, runs, ended.seeds)
    different = [each.point for each in compared if each.verdict is Verdict.DIFFERENT]
    best = best_of(campaign.decide, estimates[campaign.decide], [0, *different])
    looks = len(campaign.look_sizes())
    decides = by_point(runs, campaign.decide, ended.seeds)
    return Results(
        campaign=campaign,
        ended=ended,
        points=points,
        runs=played,
        values=seeds,
        estimates=estimates,
        differences=differences,
        comparisons=compared,
        costs=costs(campaign, runs, ended.seeds),
        best=best,
        rivals=rivals(decides, best, confidence=confidence, looks=looks) if best else [],
    )


def same_seeds(of: Sequence[Mapping[int, float]]) -> list[dict[int, float]]:
    """Return the values of those seeds that every point has, because means over different seeds cannot be compared.

    Points without any value are ignored. If the other points have no seed in common, each one keeps its own seeds.
    """
    known = [each.keys() for each in of if each]
    common = set.intersection(*map(set, known)) if known else set()
    return [{seed: value for seed, value in each.items() if not common or seed in common} for each in of]


def best_of(figure: str, estimates: Sequence[Estimate], among: Sequence[int]) -> int:
    """Return the point in `among` with the best mean of a figure; point 0 if none has a mean."""
    sign = 1 if FIGURES[figure].more_is_better else -1
    known = [number for number in among if estimates[number].mean is not None]
    return max(known, key=lambda number: sign * (estimates[number].mean or 0.0), default=0)


def write_tables(found: Results, out: Path) -> dict[str, int]:
    """Write every table as Parquet to `out`, each atomically. Return the number of rows of each table."""
    tables = {
        "runs": pa.Table.from_pylist([_run_row(run) for run in found.runs], RUNS),
        "estimates": pa.Table.from_pylist(_rows(found, found.estimates), ESTIMATES),
        "differences": pa.Table.from_pylist(_rows(found, found.differences), DIFFERENCES),
        "violations": pa.Table.from_pylist(
            [{name: getattr(run, name) for name in VIOLATIONS.names} for run in found.violating], VIOLATIONS
        ),
    }
    for name, table in tables.items():
        place = out / name
        place.mkdir(parents=True, exist_ok=True)
        # Readers skip files whose names begin with a dot, so they do not see the table until its file is complete.
        aside = place / ".part-0.parquet"
        pq.write_table(table, aside)
        aside.replace(place / "part-0.parquet")
    return {name: table.num_rows for name, table in tables.items()}


def _run_row(run: Played) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(run)
    measures = plain.pop("measures")
    for name in ("partitions", "failovers", "clients"):
        plain[name] = measures[name]
    plain["lost_records"] = list(measures["lost_records"].items())
    plain["figures"] = list(plain["figures"].items())
    plain["settings"] = list(plain["settings"].items())
    return plain


def _rows(found: Results, of: Mapping[str, Sequence[Estimate | Difference]]) -> list[dict[str, Any]]:
    return [
        {
            "point": number,
            "setting": describe(point),
            "figure": name,
            "unit": FIGURES[name].unit,
            **_numbers(of[name][number]),
        }
        for name in FIGURES
        for number, point in enumerate(found.points)
    ]


def _numbers(of: Estimate | Difference) -> dict[str, Any]:
    plain: dict[str, Any] = {name: getattr(of, name) for name in of.__struct_fields__}
    rare: Share | None = plain.pop("rare", None)
    if rare is not None:
        plain |= {f"rare_{name}": getattr(rare, name) for name in rare.__struct_fields__}
    return plain


_F, _I, _S = pa.float64(), pa.int64(), pa.string()
_PARTITION = pa.struct(
    [("partition", _S), *((n, _I) for n in ("window_us", "writable_us", "under_replicated_us", "under_min_isr_us"))]
)
_FAILOVER = pa.struct(
    [
        *((name, _S) for name in ("kind", "subject", "lost", "cause")),
        ("began_us", _I),
        *((name, _F) for name in ("detect_ms", "elect_ms", "total_ms")),
        ("ended_by", _S),
    ]
)
_CLIENT = pa.struct(
    [
        ("topic", _S),
        *((name, _I) for name in ("sent", "acknowledged", "refused")),
        *((name, _F) for name in ("latency_p50_ms", "latency_p99_ms", "silence_ms", "waited_ms")),
    ]
)
RUNS = pa.schema(
    [
        ("point", _I), ("seed", _I), ("scenario", _S), ("settings", pa.map_(_S, _S)), ("command", _S),
        ("problems", pa.list_(_S)), ("figures", pa.map_(_S, _F)), ("partitions", pa.list_(_PARTITION)),
        ("failovers", pa.list_(_FAILOVER)), ("clients", pa.list_(_CLIENT)), ("lost_records", pa.map_(_S, _I)),
        ("events", _I), ("virtual_ms", _I), ("cpu_s", _F),
    ]
)  # fmt: skip
_KEYS = [("point", _I), ("setting", _S), ("figure", _S), ("unit", _S), ("seeds", _I)]
_INTERVAL = [("mean", _F), ("low", _F), ("high", _F)]
ESTIMATES = pa.schema([*_KEYS, *_INTERVAL, ("rare_usual", _F), ("rare_seeds", _I), ("rare_low", _F), ("rare_high", _F)])
DIFFERENCES = pa.schema([*_KEYS, *_INTERVAL, ("p", _F), ("detectable", _F)])
VIOLATIONS = pa.schema([("point", _I), ("seed", _I), ("command", _S), ("problems", pa.list_(_S))])
