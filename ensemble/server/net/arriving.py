"""What has come of a frame that is not whole yet."""

from __future__ import annotations

from zabka.ensemble.records import ClientMessage, ConnectRequest, Frames


class Arriving:
    """A large frame comes in many pieces; they are put together once, when it is whole, and not at each read."""

    __slots__ = ("_missing", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._missing = 0

    def append(self, data: bytes) -> bytes:
        """All that has come since the last whole frame, `data` included; nothing while that is not enough."""
        if not self._pieces:
            return data
        self._pieces.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return b""
        whole = b"".join(self._pieces)
        self._pieces.clear()
        return whole

    def keep(self, rest: bytes, missing: int) -> None:
        """The beginning of a frame, and how many bytes it lacks; 0 where its length has not come either."""
        if rest:
            self._pieces.append(rest)
            self._missing = missing


def complaint_of_size(size: int, limit: int, *, first: bool) -> str:
    """Return what is wrong with a frame of this size, where it is the first of its connection or a later one."""
    if first:
        return "it does not speak ZooKeeper's protocol"
    if size < limit:
        return f"it sent a request of {size} bytes"
    return (
        f"it sent a request of {size} bytes, jute.maxbuffer is {limit}: keep less in one znode or multi, or raise "
        "jute.maxbuffer for every server and client"
    )


def messages_of(first: ConnectRequest | None, frames: list[bytes]) -> list[ClientMessage]:
    """Return the messages of one read: a ConnectRequest comes first, all frames after it are one message."""
    return [each for each in (first, Frames(frames) if frames else None) if each is not None]
