"""Requests without a reply yet: operations and authentication."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from zabka.ensemble.client.watches import Left
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.jute import Record
from zabka.ensemble.ports import Future
from zabka.ensemble.records import AuthPacket, MultiRequest


class Sink(Protocol):
    """Receiver of a result: a `Future`, or an object with the same two methods."""

    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...
    def done(self) -> bool: ...


class Call:
    """A request that has no reply yet."""

    __slots__ = ("body", "convert", "op", "path", "sink", "watch", "xid")

    def __init__(
        self,
        op: int,
        body: Record | MultiRequest,
        sink: Sink,
        path: str = "",
        convert: Callable[[Any], Any] | None = None,
        watch: Left | None = None,
    ) -> None:
        self.op = op
        self.body = body
        self.sink = sink
        self.path = path
        self.convert = convert
        self.watch = watch
        self.xid = 0

    def fail(self, error: ZooKeeperError) -> None:
        """Set the error as the result of the request's future, unless that future is already done."""
        if not self.sink.done():
            self.sink.set_exception(error)


class Auth:
    """Auth packet that was sent or will be sent, and the future that its first reply resolves."""

    __slots__ = ("future", "packet")

    def __init__(self, packet: AuthPacket, future: Future[None]) -> None:
        self.packet = packet
        self.future: Future[None] | None = future

    def resolve(self, error: ZooKeeperError | None) -> None:
        """Resolve the future, or fail it with the error; later calls have no effect."""
        future, self.future = self.future, None
        if future is None or future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
