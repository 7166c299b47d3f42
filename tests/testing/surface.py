"""List the public interface of `zabka.testing`. `python -m tests.testing.surface` writes it to `surface.txt`.

A removed or changed line needs a new major version (before 1.0: a new minor version). An added line needs a new minor
version.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SURFACE = Path(__file__).with_name("surface.txt")


def lines() -> Iterator[str]:
    """Yield a line for each public name, with its signature."""
    from zabka import testing
    from zabka.testing import cluster, pytest_plugin

    described = [
        value
        for name, value in vars(cluster).items()
        if inspect.isclass(value) and value.__module__ == cluster.__name__ and not name.startswith("_")
    ]
    for name in testing.__all__:
        found = getattr(testing, name)
        yield from _class(found) if inspect.isclass(found) else [f"zabka.testing.{name}{inspect.signature(found)}"]
    for value in described:
        if value.__name__ not in testing.__all__:
            yield from _class(value)
    for name, value in sorted(vars(pytest_plugin).items()):
        if type(value).__name__ == "FixtureFunctionDefinition":
            yield f"fixture {name}"
    yield from _options()


class _Options:
    """Replacement for pytest's parser that records which options the plugin adds."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def getgroup(self, name: str) -> _Options:
        return self

    def addoption(self, *names: str, **_: object) -> None:
        self.found.append(f"option {' '.join(names)}")

    def addini(self, name: str, *_: object, **__: object) -> None:
        self.found.append(f"ini {name}")


def _options() -> list[str]:
    from zabka.testing.pytest_plugin import pytest_addoption

    written: Any = _Options()
    pytest_addoption(written)
    found: list[str] = written.found
    return found


def _class(made: type[Any]) -> Iterator[str]:
    attributes = _attributes(made)
    for name in sorted({*dir(made), *attributes}):
        if name.startswith("_") or name in vars(object):
            continue
        if name in attributes:
            yield f"zabka.testing.{made.__name__}.{name}"
            continue
        if not _is_ours(made, name):
            continue
        member = inspect.getattr_static(made, name)
        where = f"zabka.testing.{made.__name__}.{name}"
        if isinstance(member, property):
            assert member.fget is not None
            yield f"{where} -> {inspect.signature(member.fget).return_annotation}"
        elif inspect.isfunction(member):
            yield f"{where}{inspect.signature(member)}"
        else:
            yield where


def _attributes(made: type[Any]) -> set[str]:
    """Return the attributes that the constructors of a class and of its bases assign."""
    found: set[str] = set()
    for base in made.__mro__:
        if base.__module__.startswith("zabka.testing."):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                    found |= {
                        target.attr
                        for statement in ast.walk(node)
                        if isinstance(statement, ast.Assign | ast.AnnAssign)
                        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
                        if isinstance(target, ast.Attribute)
                    }
    return found


def _is_ours(made: type[Any], name: str) -> bool:
    owner = next(base for base in made.__mro__ if name in vars(base))
    return owner.__module__.startswith("zabka.testing.")


def text() -> str:
    """Return the content of `surface.txt` for the current code."""
    return "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    SURFACE.write_text(text())
