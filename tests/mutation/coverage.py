"""Measure which lines tests and seeds execute.

Modules are imported with a mark before each statement of their functions. A mark costs some tens of nanoseconds, so
that one run of all tests takes about twice its usual time.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType

from tests.mutation.mutants import ROOT

_MARKS = "__mutation_marks__"


class ChangedSources:
    """Import hook that compiles some modules from a changed syntax tree. It is the first in sys.meta_path."""

    def __init__(self, trees: dict[str, ast.Module]) -> None:
        self._trees = {str(ROOT / path): tree for path, tree in trees.items()}
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin not in self._trees:
            return None
        spec.loader = _TreeLoader(name, spec.origin, self._trees[spec.origin])
        return spec


class _TreeLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, self.path, "exec", dont_inherit=True)


class Marks:
    """Marks in the code of the given modules. They record which of the marked lines were executed.

    A module has marks only if it is imported after this object was created.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._places: list[tuple[str, int]] = []
        self._hit = bytearray()
        trees = {}
        for path in paths:
            tree = ast.parse((ROOT / path).read_text())
            _Marking(path, self._places).visit(tree)
            trees[path] = ast.fix_missing_locations(tree)
        self._hit.extend(bytes(len(self._places)))
        setattr(builtins, _MARKS, self._hit)
        ChangedSources(trees)

    def take(self) -> list[int]:
        """Return the numbers of the marks executed since the previous call."""
        hit, start, found = self._hit, 0, []
        while (start := hit.find(1, start)) >= 0:
            found.append(start)
            start += 1
        hit[:] = bytes(len(hit))
        return found

    @property
    def places(self) -> list[tuple[str, int]]:
        """Return the path and line of each mark, ordered by its number."""
        return self._places


class _Marking(ast.NodeTransformer):
    """Insert a mark before each statement of each function. Code that runs on import gets no marks."""

    def __init__(self, path: str, places: list[tuple[str, int]]) -> None:
        self._path = path
        self._places = places
        self._inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        outer, self._inside = self._inside, True
        self.generic_visit(node)
        node.body = self._marked(node.body)
        self._inside = outer
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outer, self._inside = self._inside, False
        self.generic_visit(node)
        self._inside = outer
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self._inside and not isinstance(node, ast.Lambda | ast.IfExp | ast.FunctionDef | ast.AsyncFunctionDef):
            for name in ("body", "orelse", "finalbody"):
                if statements := getattr(node, name, None):
                    setattr(node, name, self._marked(statements))
        return node

    def _marked(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        marked: list[ast.stmt] = []
        for statement in statements:
            mark = ast.parse(f"{_MARKS}[{len(self._places)}] = 1").body[0]
            for each in ast.walk(mark):
                ast.copy_location(each, statement)
            self._places.append((self._path, statement.lineno))
            marked += [mark, statement]
        return marked
