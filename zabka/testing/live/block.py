"""Context manager for `with` and `async with` that runs a cluster or an ensemble during the block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class Block(AbstractContextManager[T], AbstractAsyncContextManager[T], Generic[T]):
    """Context manager that runs processes during a `with` or `async with` block.

    An `async with` starts and stops the processes in a separate thread, so that it does not block the event loop. The
    thread runs until the end of the block, because the processes are stopped when the thread that started them ends.
    """

    def __init__(self, manage: Callable[[], AbstractContextManager[T]]) -> None:
        self._manage = manage
        self._managed: AbstractContextManager[T] | None = None
        self._leave = threading.Event()
        self._started: Future[T] = Future()
        self._ended: Future[None] = Future()

    def __enter__(self) -> T:
        self._managed = self._manage()
        return self._managed.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        assert self._managed is not None
        return self._managed.__exit__(kind, error, at)

    async def __aenter__(self) -> T:
        threading.Thread(target=self._hold, name="zabka-block", daemon=True).start()
        try:
            return await asyncio.shield(asyncio.wrap_future(self._started))
        except asyncio.CancelledError:
            self._leave.set()
            await asyncio.shield(asyncio.wrap_future(self._ended))
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._leave.set()
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def _hold(self) -> None:
        try:
            with self._manage() as made:
                self._started.set_result(made)
                self._leave.wait()
        except BaseException as reason:
            if not self._started.done():
                self._started.set_exception(reason)
                self._ended.set_result(None)
            else:
                self._ended.set_exception(reason)
        else:
            self._ended.set_result(None)
