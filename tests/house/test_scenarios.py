"""Every acceptance scenario of the controller reference has at least one test."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
SCENARIOS = range(1, 73)


def marked(path: Path) -> set[int]:
    """Return the numbers in `pytest.mark.scenario(n)` of a file."""
    text = path.read_text()
    if "mark.scenario(" not in text:
        return set()
    return {
        number.value
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "scenario"
        for number in call.args
        if isinstance(number, ast.Constant) and isinstance(number.value, int)
    }


def test_every_acceptance_scenario_has_a_test() -> None:
    found = {number for path in sorted(TESTS.rglob("test_*.py")) for number in marked(path)}
    missing = [number for number in SCENARIOS if number not in found]
    assert missing == [], f"no test has @pytest.mark.scenario for {missing}"
    assert found <= set(SCENARIOS), f"there are no scenarios {sorted(found - set(SCENARIOS))}"
