"""Ctrl-C and SIGTERM: they end a run by KeyboardInterrupt, once, and never between a process's start and its record."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[None]:
    """The first of the signals raises KeyboardInterrupt; later ones are ignored: the servers are being stopped."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def held() -> Iterator[None]:
    """A signal that comes meanwhile counts at the end: a process that is being started must not be lost sight of."""
    seen: list[int] = []
    before = {each: signal.signal(each, lambda number, frame: seen.append(number)) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        if seen:
            signal.raise_signal(seen[0])
