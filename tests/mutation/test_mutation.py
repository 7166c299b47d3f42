"""The mutation tool: which changes it makes, whether they take effect, and which lines count as executed."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import coverage, mutants
from tests.mutation.patching import RunningFunctions


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("a < b", ["a <= b", "a >= b"]),
        ("a is None", ["a is not None"]),
        ("a > 1", ["a >= 1", "a <= 1", "a > 0", "a > 2"]),
        ("a and not b", ["a or not b", "a and b"]),
        ("a + 1", ["a - 1", "a + 0", "a + 2"]),
        ("[a for a in b if a]", ["[a for a in b if not a]"]),
        ("f(1600)", ["pass", "f(3200)"]),
        ("return a", ["return None"]),
        ("if a: pass", ["if not a: pass"]),
        ("a.b = c", ["pass"]),
        ("a += b", ["a -= b", "pass"]),
        ("raise E(f'{a + 1}')", ["pass"]),
        ("assert a is not None", []),
        ("raise AssertionError(f(1))", []),
        ("a = zip(b, c, strict=True)", []),
        ("a = f(b, strict=True)", ["a = f(b, strict=False)"]),
        ("a = b * 1000", ["a = b // 1000", "a = b * 2000"]),
        ("return", []),
        ("for a in b: return", ["for a in b: pass"]),
    ],
)
def test_statement_yields_the_expected_mutants(text: str, changed: list[str]) -> None:
    source = f"def f():\n    {text}\n"
    found = mutants.mutants_in(source, "f.py")
    made = [ast.unparse(mutants.changed(source, each.number)) for each in found]
    assert made == [ast.unparse(ast.parse(f"def f():\n    {each}\n")) for each in changed]
    assert all((each.function, each.line, each.statement) == ("f", 2, 2) for each in found)


def test_code_run_at_import_has_mutants_but_annotations_do_not() -> None:
    source = "Result = A | B\nLIMIT = 5\ndef f(a: int = 3, *, b: bool = False) -> None: ...\n"
    assert [(each.function, each.change) for each in mutants.mutants_in(source, "f.py")] == [
        ("", "5 -> 6"),
        ("", "3 -> 4"),
        ("", "False -> True"),
    ]


APPLIED = """
from zabka.ensemble.ids import Epoch, PeerId, Zxid
from zabka.ensemble.zab.election import better
from zabka.ensemble.zab.messages import Vote
from tests.mutation import mutants
from tests.mutation.patching import RunningFunctions

change = next(each for each in mutants.mutants_of("zabka/ensemble/zab/election.py") if each.function == "better")
vote = Vote(PeerId(1), Zxid(1), Epoch(1))
assert better(vote, vote) is False
assert RunningFunctions().apply(change)
assert better(vote, vote) is None, "its first mutant returns None"
"""


def test_applied_mutant_takes_effect_in_an_imported_function() -> None:
    """A mutant takes effect in a function that was imported before.

    The test runs in a separate process, so that other tests cannot have replaced its functions.
    """
    subprocess.run([sys.executable, "-c", APPLIED], cwd=Path(__file__).parents[2], check=True)


def test_mutant_outside_functions_cannot_be_applied_at_run_time() -> None:
    change = next(each for each in mutants.mutants_of("zabka/ensemble/zab/election.py") if not each.function)
    assert not RunningFunctions().apply(change)


MARKED = """
def f(a):
    'What it does.'
    if a:
        return 1
    return 2
"""


def test_executed_lines_of_functions_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "marked_module.py").write_text(MARKED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(coverage, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    marks = coverage.Marks(["marked_module.py"])
    module = importlib.import_module("marked_module")
    assert marks.take() == []
    assert module.f(False) == 2
    assert {marks.places[place][1] for place in marks.take()} == {3, 4, 6}
    assert marks.take() == []
