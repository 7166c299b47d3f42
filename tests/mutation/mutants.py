"""A mutant: one small change of a module's syntax tree, identified by its number in that module."""

from __future__ import annotations

import ast
import copy
import math
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).resolve().parents[2]
SMALL = 64
"""Numbers of at least this size are doubled in a mutant, instead of changed by 1.

A test need not detect that a timeout of 1,600 ms becomes 1,601 or 1,599 ms.
"""
PACKAGES = (
    "zabka/controller", "zabka/broker_sim/replication", "zabka/ensemble/zab", "zabka/ensemble/txnlog",
    "zabka/ensemble/tree",
)  # fmt: skip

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_PLAIN = (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr, ast.Await, ast.Subscript)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Mutant(NamedTuple):
    """One change of a module.

    `number` counts the changes in its module. `statement` is the first line of the enclosing statement. `function` is
    empty for code that runs on import.
    """

    path: str
    number: int
    line: int
    statement: int
    function: str
    change: str

    @property
    def name(self) -> str:
        """Name of the mutant in the results: its file, line and change."""
        return f"{self.path}:{self.line} #{self.number} {self.change}"


def mutants_of(path: str) -> list[Mutant]:
    """Return all mutants of a module."""
    return mutants_in((ROOT / path).read_text(), path)


def mutants_in(source: str, path: str) -> list[Mutant]:
    """Return all mutants of this source code."""
    finder = _Changes(path, requested=None)
    finder.visit(ast.parse(source))
    return finder.found


def mutated(path: str, number: int) -> ast.Module:
    """Return the module's syntax tree with the change that has this number."""
    return changed((ROOT / path).read_text(), number)


def changed(source: str, number: int) -> ast.Module:
    """Return a syntax tree of this source code with one change."""
    tree = _Changes("", requested=number).visit(ast.parse(source))
    assert isinstance(tree, ast.Module)
    return ast.fix_missing_locations(tree)


def modules(packages: tuple[str, ...] = PACKAGES) -> list[str]:
    """Return the paths of all modules of these packages."""
    return [
        path.relative_to(ROOT).as_posix() for package in packages for path in sorted((ROOT / package).rglob("*.py"))
    ]


class _Changes(ast.NodeTransformer):
    """Visit a module's syntax tree in a fixed order, count the possible changes, and apply the requested one."""

    def __init__(self, path: str, requested: int | None) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._requested = requested
        self._names: list[str] = []
        self._functions = 0
        self._statement = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if _is_no_behaviour(node) or (_is_union(node) and not self._functions):
            return node
        outer = self._statement
        if isinstance(node, ast.stmt):
            self._statement = node.lineno
        chosen: ast.AST | None = None
        for changed in _changes(node, self._names[-1] if self._names else ""):
            if len(self.found) == self._requested:
                chosen = ast.copy_location(changed, node)
            self.found.append(
                Mutant(
                    self._path,
                    len(self.found),
                    getattr(node, "lineno", self._statement),
                    self._statement,
                    ".".join(self._names) if self._functions else "",
                    f"{_text(node)} -> {_text(changed)}",
                )
            )
        below = self._below(node)
        self._statement = outer
        return chosen or below

    def _below(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                node.value = self.visit(node.value)  # type: ignore[assignment]
            return node
        if isinstance(node, ast.ClassDef):
            self._names.append(node.name)
            node.body = [self.visit(each) for each in node.body]  # type: ignore[misc]
            self._names.pop()
            return node
        if isinstance(node, _FUNCTIONS):
            return self._function(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
            # Do not change `strict`, which only asserts that the arguments have the same length.
            node.args = [self.visit(each) for each in node.args]  # type: ignore[misc]
            return node
        return self.generic_visit(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> ast.AST:
        """Visit a function.

        Its default values are code that runs at the definition. Its body runs at each call.
        """
        node.args.defaults = [self.visit(each) for each in node.args.defaults]  # type: ignore[misc]
        node.args.kw_defaults = [each and self.visit(each) for each in node.args.kw_defaults]  # type: ignore[misc]
        self._names.append("<lambda>" if isinstance(node, ast.Lambda) else node.name)
        self._functions += 1
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)  # type: ignore[assignment]
        else:
            # Do not remove a final `return` without a value: the function returns None anyway.
            last = [each for each in node.body[-1:] if isinstance(each, ast.Return) and each.value is None]
            node.body = [self.visit(each) for each in node.body[: len(node.body) - len(last)]] + last  # type: ignore[misc]
        self._functions -= 1
        self._names.pop()
        return node


def _is_no_behaviour(node: ast.AST) -> bool:
    """Return whether a change of this node could not affect behavior.

    Such nodes are messages, assertions about types, imports and __repr__ methods.
    """
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.FunctionDef):
        return node.name in {"__repr__", "__str__"}
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return ast.unparse(node.exc.func) == "AssertionError"
    return isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom)


def _is_union(node: ast.AST) -> bool:
    """Return whether the node is a union of types.

    In code that runs on import, `|` has no other use.
    """
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _text(node: ast.AST) -> str:
    """Return the source code of the node, shortened to fit into a table."""
    if isinstance(node, ast.If | ast.While):
        return f"if {ast.unparse(node.test)}"[:80]
    return " ".join(ast.unparse(node).split())[:80] if not isinstance(node, ast.comprehension) else "comprehension"


def _changes(node: ast.AST, function: str) -> list[ast.AST]:
    """Return the changed versions of this node. Changes of its children are not included."""
    match node:
        case ast.Compare():
            return _compared(node)
        case ast.BoolOp(op=op):
            return [_with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [operand]
        case ast.BinOp(left=left, op=op, right=right) if not (_is_text(left) or _is_text(right)):
            moved = [_with(node, op=_ARITHMETIC[type(op)]())] if type(op) in _ARITHMETIC else []
            less = [_with(node, right=ast.Constant(right.value - 1)) for _ in [0] if _is_whole(right, below=SMALL)]
            return moved + less
        case ast.Constant(value=bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(value=int(value)):
            return [ast.Constant(value + 1 if value < SMALL else 2 * value)]
        case ast.If() | ast.While() | ast.IfExp() if isinstance(node.test, _PLAIN):
            return [_with(node, test=_not(node.test))]
        case ast.comprehension(ifs=[*conditions]):
            return [
                _with(node, ifs=[_not(each) if n == m else each for m, each in enumerate(conditions)])
                for n, condition in enumerate(conditions)
                if isinstance(condition, _PLAIN)
            ]
        case ast.Return(value=None):
            return [ast.Pass()]
        case ast.Return(value=ast.Constant(value=bool() | None)):
            return []
        case ast.Return():
            return [_with(node, value=ast.Constant(None))]
        case ast.AugAssign(op=op):
            other = [_with(node, op=_ARITHMETIC[type(op)]())] if type(op) in _ARITHMETIC else []
            return [*other, ast.Pass()]
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            return [ast.Pass()]
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]) if function != "__init__":
            return [ast.Pass()]
    return []


def _compared(node: ast.Compare) -> list[ast.AST]:
    changed: list[ast.AST] = []
    for n, op in enumerate(node.ops):
        for other in _COMPARISONS[type(op)]:
            changed.append(_with(node, ops=[other() if m == n else each for m, each in enumerate(node.ops)]))
    for n, compared in enumerate(node.comparators):
        if _is_whole(compared):
            less = ast.Constant(compared.value - 1)  # type: ignore[attr-defined]
            changed.append(
                _with(node, comparators=[less if m == n else each for m, each in enumerate(node.comparators)])
            )
    return changed


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """Return a copy of the node with these fields changed."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _not(node: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(ast.Not(), node), node)


def _is_whole(node: ast.AST, below: float = math.inf) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value < below


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
