"""Docstrings and comments name only modules and files that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.house.packages import PACKAGES, ROOT, folder_of, name_of, nodes_of, text_of

FOLDERS = (*map(folder_of, PACKAGES), ROOT / "scripts", ROOT / "bench", ROOT / "tests")
TEXTS = [
    name_of(path) for folder in FOLDERS for path in sorted(folder.rglob("*")) if path.suffix in {".py", ".js", ".json"}
]
_DOTTED = re.compile(rf"`((?:zabka\.(?:{'|'.join(PACKAGES)})|bench|scripts|tests)(?:\.\w+)+)`")
_SLASHED = re.compile(r"`((?:api|broker_sim|compose|controller|ensemble|zabka|bench|scripts|tests)(?:/[\w.]+)+/?)`")
NOT_IN_THE_TREE = {"zabka/cli/VERB.py", "compose.yaml"}
"""Names that do not exist in the repository: a pattern, and a file that users write."""


@cache
def _names_of(path: Path) -> frozenset[str]:
    """Return the names that a module and its classes define."""
    found: set[str] = set()
    for node in nodes_of(name_of(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    return frozenset(found)


def _is_there(dotted: str) -> bool:
    """Return whether a dotted name exists: a package, a module, or `package.module.Class.method`."""
    place, *rest = dotted.split(".")
    path = ROOT / place
    while rest and (path / rest[0]).is_dir():
        path /= rest.pop(0)
    if rest and (module := path / f"{rest[0]}.py").is_file():
        path, rest = module, rest[1:]
    else:
        path /= "__init__.py"
    return path.is_file() and all(name in _names_of(path) for name in rest)


def test_every_referenced_module_exists() -> None:
    missing = [
        f"{name}: {dotted}"
        for name in TEXTS
        for dotted in _DOTTED.findall(text_of(name))
        if dotted not in NOT_IN_THE_TREE and not _is_there(dotted)
    ]
    assert missing == []


def test_every_referenced_file_exists() -> None:
    missing = [
        f"{name}: {path}"
        for name in TEXTS
        for path in _SLASHED.findall(text_of(name))
        if not ((ROOT / path).exists() or (ROOT / f"{path}.py").is_file() or path in NOT_IN_THE_TREE)
    ]
    assert missing == []
