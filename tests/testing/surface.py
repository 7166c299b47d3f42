"""The surface that the fixtures promise, as text: `python -m tests.testing.surface` writes it anew.

A line that goes, or changes, is a new major version; a line that comes, a new minor one.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SURFACE = Path(__file__).with_name("surface.txt")


def lines() -> Iterator[str]:
    """Each public name with what it takes."""
    from zabka.testing import cluster, pytest_plugin
    from zabka.testing.container import ZabkaContainer
    from zabka.testing.live.cluster import LiveCluster
    from zabka.testing.live.start import running_cluster
    from zabka.testing.simulated.cluster import SimulatedCluster, running_world

    yield from _functions("zabka.testing", {"running_cluster": running_cluster})
    yield from _functions("zabka.testing", {"running_world": running_world})
    own = [value for value in vars(cluster).values() if getattr(value, "__module__", "") == "zabka.testing.cluster"]
    for made in (*own, LiveCluster, SimulatedCluster, ZabkaContainer):
        if inspect.isclass(made):
            yield from _class(made)
        elif inspect.isfunction(made) and not made.__name__.startswith("_"):
            yield from _functions("zabka.testing.cluster", {made.__name__: made})
    for name, value in sorted(vars(pytest_plugin).items()):
        if type(value).__name__ == "FixtureFunctionDefinition":
            yield f"fixture {name}"
    yield from _options()


class _Options:
    """Stands for pytest's parser, and writes down what the plugin adds."""

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
    for name in sorted(dir(made)):
        if name.startswith("_") or name in vars(object) or not _is_ours(made, name):
            continue
        member = inspect.getattr_static(made, name)
        where = f"{made.__module__}.{made.__name__}.{name}"
        if isinstance(member, property):
            assert member.fget is not None
            yield f"{where} -> {inspect.signature(member.fget).return_annotation}"
        elif inspect.isfunction(member):
            yield f"{where}{inspect.signature(member)}"
        else:
            yield where


def _is_ours(made: type[Any], name: str) -> bool:
    owner = next(base for base in made.__mro__ if name in vars(base))
    return owner.__module__.startswith("zabka.testing.")


def _functions(module: str, functions: dict[str, Any]) -> Iterator[str]:
    for name, function in functions.items():
        yield f"{module}.{name}{inspect.signature(function)}"


def text() -> str:
    """The whole."""
    return "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    SURFACE.write_text(text())
