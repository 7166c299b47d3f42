"""A baseline: the figures of an earlier run on this machine, to which later ones are held.

A machine's speed drifts by more than what is looked for.  So where both sides were measured, then and now, the ratio to
ZooKeeper is what counts; alone, CPU time per operation is the steadiest figure.  For two commits `bench.paired` sees
more.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.load import CannotMeasure
from bench.works import WORKS

SEEN = 0.05
"""A change by this much is a change."""
_MACHINE = ("processor", "cores", "python", "python_with_profiles", "java", "zookeeper")
"""What two runs must have in common."""
_FIGURES = (
    ("ops_per_s", "ops/s", True),
    ("p50_ms", "p50", False),
    ("p99_ms", "p99", False),
    ("cpu_us_per_op", "CPU", False),
)


def baseline_path(cache: Path, machine: dict[str, object]) -> Path:
    """Where the baseline of this machine is kept."""
    described = json.dumps([machine.get(key) for key in _MACHINE])
    return cache / f"bench-{hashlib.sha256(described.encode()).hexdigest()[:12]}.json"


def save(path: Path, document: dict[str, Any], date: str) -> None:
    """Keep a run's document as the baseline.  Raises CannotMeasure."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"date": date, **document}, indent=1))
    except OSError as failure:
        raise CannotMeasure(f"the baseline cannot be kept: {failure}") from failure


def load(path: Path) -> dict[str, Any] | None:
    """The baseline; None where there is none, or none that can be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "works" in found else None


def baseline_table(now: dict[str, Any], then: dict[str, Any]) -> Table:
    """Now divided by then, for each work that both have; the ratio to ZooKeeper where both have that."""
    table = Table(
        title=f"Now ÷ the baseline of {then['date']}",
        caption="vs ZooKeeper: the ratios to it, which a drifting machine leaves alone.  Red is worse by 5 % or more.",
        caption_justify="left",
    )
    table.add_column("work")
    table.add_column("")
    for _, heading, _ in _FIGURES:
        table.add_column(heading, justify="right")
    for tree, key in (("small", "works"), ("grown", "grown")):
        for name, row in now.get(key, {}).items():
            before = then.get(key, {}).get(name, {})
            of = next((of for of in ("ratio", "ours") if of in row and of in before), None)
            if of is not None:
                cells = (_change(row[of][figure], before[of][figure], more) for figure, _, more in _FIGURES)
                table.add_row(f"{WORKS[name].title}, {tree} tree", "vs ZooKeeper" if of == "ratio" else "alone", *cells)
    return table


def _change(now: float | None, then: float | None, more_is_better: bool) -> str:
    if not now or not then:
        return "n/a"
    change = now / then
    worse = change < 1 - SEEN if more_is_better else change > 1 + SEEN
    better = change > 1 + SEEN if more_is_better else change < 1 - SEEN
    return f"[{'red' if worse else 'green' if better else 'default'}]{change:.2f}[/]"
