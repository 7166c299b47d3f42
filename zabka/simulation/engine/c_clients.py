"""Refusal of confluent-kafka, whose threads are started in C and run in real time.

Its classes are C types, and a method of such a type cannot be replaced. While a world runs, each global name of a
module that refers to one of them therefore refers to a subclass that checks its caller. A program can also import the
library while the world runs, so a finder of modules notices its import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

LIBRARY = "confluent_kafka"
INSTEAD = "it runs in real time, in threads of its own; use aiokafka here, or confluent-kafka with zabka_cluster"
_TYPES = ("Producer", "Consumer", "ShareConsumer", "_AdminClientImpl")

Refusing = Callable[[Callable[..., Any], str, str], Callable[..., Any]]
"""Returns a function that calls the original, or raises NotSimulated with a name and an alternative."""
Replace = Callable[[Any, str, Any], None]
"""Sets an attribute until the world stops."""


class CClients(MetaPathFinder):
    """Makes confluent-kafka's classes refuse to be used by a program of a world."""

    def __init__(self, refusing: Refusing, replace: Replace) -> None:
        self._refusing = refusing
        self._replace = replace

    def guard(self) -> None:
        """Replace the classes in all modules that are imported now."""
        library = sys.modules.get(f"{LIBRARY}.cimpl")
        types = [each for name in _TYPES if (each := getattr(library, name, None)) is not None]
        guards = {id(each): self._guard_of(each) for each in types}
        if not guards:
            return
        for module in list(sys.modules.values()):
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if id(value) in guards:
                    self._replace(module, name, guards[id(value)])
        for each in types:
            for subclass in _subclasses(each):
                if "__init__" in vars(subclass) and id(subclass) not in map(id, guards.values()):
                    self._replace(subclass, "__init__", self._refused_init(subclass))

    def _guard_of(self, original: type) -> type:
        return type(original.__name__, (original,), {"__init__": self._refused_init(original)})

    def _refused_init(self, owner: type) -> Callable[..., Any]:
        name = owner.__name__.removeprefix("_").removesuffix("Impl")
        return self._refusing(owner.__init__, f"{LIBRARY}.{name}", INSTEAD)  # type: ignore[misc]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the library, which is guarded after its import, and None for all other modules."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname == LIBRARY else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_guard(module: ModuleType) -> None:
            execute(module)
            self.guard()

        spec.loader.exec_module = execute_and_guard  # type: ignore[method-assign]
        return spec


def _subclasses(owner: type) -> list[type]:
    children: list[type] = owner.__subclasses__()
    return [each for child in children for each in (child, *_subclasses(child))]
