"""Faster versions of asyncio's callback handles: they do not check the debug mode at each callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any


class Callback(asyncio.Handle):
    """A callback that a simulated event loop runs in one of its turns (`zabka.simulation.engine.loop`)."""

    __slots__ = ()
    _context: Context
    _callback: Callable[..., object]

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class Timer(asyncio.TimerHandle):
    """A callback that a simulated event loop runs at a time of its clock, in µs."""

    __slots__ = ()
    _context: Context
    _callback: Callable[..., object]

    def __init__(
        self,
        due_us: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._when = due_us / 1e6
        self._scheduled = False
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None
