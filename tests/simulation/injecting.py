"""How bugs are injected: a context replaces functions of the server, never of the simulator or checkers.

A bug injected into the simulated disk or a test driver would only show that the simulator can be broken. It would be
reported even if the server code did not contain the rule under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

SERVING = ("ensemble", "kafka", "controller", "broker_sim")
"""Packages that contain server code."""


class NotServingCode(Exception):
    """The code that a bug would replace is not part of the server code."""


class InjectedBug(NamedTuple):
    """A bug, and strings that show it: in a run with the bug, one of the problems must contain one of these strings."""

    injected_bug: Callable[[], AbstractContextManager[None]]
    shows: tuple[str, ...]

    def __call__(self) -> AbstractContextManager[None]:
        """Return a context that injects the bug."""
        return self.injected_bug()

    def shown(self, problems: Iterable[str]) -> str | None:
        """Return the first problem that contains one of the strings in `shows`, or None."""
        return next((problem for problem in problems if any(text in problem for text in self.shows)), None)


@contextmanager
def broken(owner: type | ModuleType, **rules: Any) -> Iterator[None]:
    """Replace these functions, classes or numbers of a class or module.

    Raises NotServingCode if the owner is not in the server code, and AttributeError if the owner itself does not define
    a name.
    """
    home = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    if not home.startswith(tuple(f"zabka.{package}." for package in SERVING)):
        raise NotServingCode(f"{home} is not part of what serves")
    with ExitStack() as injected:
        for name, rule in rules.items():
            if name not in vars(owner):
                raise AttributeError(f"{home} has no {name} of its own in {owner.__name__}")
            injected.enter_context(patch.object(owner, name, rule))
        yield
