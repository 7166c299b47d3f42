"""Injected bugs of consumer groups. For each bug, the outage library has a script that exposes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from kio.schema.errors import ErrorCode

from tests.simulation.injecting import broken
from zabka.broker_sim.groups.coordinator import GroupCoordinator


@contextmanager
def former_members_commit() -> Iterator[None]:
    """Injected bug: a coordinator stores the offsets of a member that it has removed."""
    with broken(GroupCoordinator, _commit_refusal=staticmethod(lambda *_, **__: ErrorCode.none)):
        yield


INJECTED: dict[str, Callable[[], AbstractContextManager[None]]] = {"former members commit": former_members_commit}
