"""How a bug is planted: rules of the code that serves are replaced, never the world in which it is judged.

A plant that breaks the simulated disk, or a driver of the tests, shows that the simulator can be broken, and goes on
doing so when the rule that it is about is gone from the code that serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

SERVING = ("ensemble", "kafka", "controller", "broker_sim")
"""The rooms of what serves."""


class NotServingCode(Exception):
    """What a plant would break is no code that serves."""


class Plant(NamedTuple):
    """A bug, and what a run with it has to show: one of these texts must be part of one of its problems."""

    plant: Callable[[], AbstractContextManager[None]]
    shows: tuple[str, ...]

    def __call__(self) -> AbstractContextManager[None]:
        """The bug is there while this is entered."""
        return self.plant()

    def shown(self, problems: Iterable[str]) -> str | None:
        """The first problem that says what this bug is about."""
        return next((problem for problem in problems if any(text in problem for text in self.shows)), None)


@contextmanager
def broken(owner: type | ModuleType, **rules: Any) -> Iterator[None]:
    """Replace these functions, classes or numbers of a class or a module.

    Raises NotServingCode where it does not serve, AttributeError where it has not (or has not by itself) what is named.
    """
    home = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    if not home.startswith(tuple(f"zabka.{package}." for package in SERVING)):
        raise NotServingCode(f"{home} is not part of what serves")
    with ExitStack() as planted:
        for name, rule in rules.items():
            if name not in vars(owner):
                raise AttributeError(f"{home} has no {name} of its own in {owner.__name__}")
            planted.enter_context(patch.object(owner, name, rule))
        yield
