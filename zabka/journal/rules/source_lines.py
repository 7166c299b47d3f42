"""Finds the line at which a function or method of this project begins."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from zabka.journal.rules.rule import Source

_PACKAGE = Path(__file__).resolve().parents[2]


def file_of(path: str) -> Path:
    """Return the source file that `Source.path` names, in a checkout or in an installed package."""
    return _PACKAGE / path.removeprefix("zabka/")


def definitions(text: str) -> dict[str, int]:
    """Return the number of the first line of every function, class and method in a module's source.

    The keys are names (`Class.method`). Raises SyntaxError if the source is not valid Python.
    """
    found: dict[str, int] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node.lineno
        if isinstance(node, ast.ClassDef):
            methods = (inner for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef))
            found.update((f"{node.name}.{method.name}", method.lineno) for method in methods)
    return found


@cache
def _definitions_of(path: Path) -> dict[str, int]:
    return definitions(path.read_text()) if path.is_file() else {}


def line_of(source: Source) -> int | None:
    """Return the line at which the function begins, from 1, or None if the file or the name does not exist."""
    return _definitions_of(file_of(source.path)).get(source.symbol)


def place_of(source: Source) -> str:
    """Return the file, line and name of a function, such as `controller/election.py:37 (leader_for_offline)`."""
    line = line_of(source)
    return f"{source.path}{f':{line}' if line else ''} ({source.symbol})"
