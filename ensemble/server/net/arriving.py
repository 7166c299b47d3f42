"""What has come of a frame that is not whole yet."""

from __future__ import annotations


class Arriving:
    """A large frame comes in many pieces; they are put together once, when it is whole, and not at each read."""

    __slots__ = ("_missing", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._missing = 0

    def take(self, data: bytes) -> bytes:
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
