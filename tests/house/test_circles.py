"""No import cycles: no file imports, directly or indirectly, a file that imports it, even in a function."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.packages import PACKAGES, files_of, module_of

Graph = dict[str, list[str]]


def imports() -> Graph:
    """Return each module with the modules of this project that it imports, including in functions and under
    TYPE_CHECKING.
    """
    modules = {module_of(path): path for package in PACKAGES for path in files_of(package)}
    return {
        name: sorted(set(imported(path)) & modules.keys() - {name})
        for name, path in sorted(modules.items())
    }  # fmt: skip


def imported(path: Path) -> list[str]:
    """Return every name that a file imports. `from a import b` gives both `a.b` and `a`, because `b` can be a
    module."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components with more than one node (Tarjan, SIAM J. Comput. 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def test_reported_import_cycle_has_only_modules_on_the_cycle() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": [], "e": ["a", "f"], "f": ["e"], "g": ["g"]}
    assert sorted(circles(graph)) == [["a", "b", "c"], ["e", "f"]]


def test_source_files_have_no_import_cycle() -> None:
    assert circles(imports()) == []
