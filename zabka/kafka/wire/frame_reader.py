"""Assembles Kafka frames from TCP data. Each byte is copied once, even if a frame arrives in many pieces."""

from __future__ import annotations

from struct import Struct

FRAME_SIZE = Struct(">i")
_HEAD = FRAME_SIZE.size


class FrameTooLarge(Exception):
    """A frame declares a size that is not allowed."""

    def __init__(self, size: int) -> None:
        super().__init__(f"invalid frame length {size}")
        self.size = size


class FrameReader:
    """Receives the bytes of a connection as they arrive, and returns the complete frames, without their size fields."""

    __slots__ = ("_begun", "_head", "_missing", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        """Maximum size of the next frames."""
        self._head = b""
        """The bytes of a frame's size field that have arrived, if it is incomplete."""
        self._begun: list[bytes] = []
        """The parts of an incomplete frame that have arrived after its size field."""
        self._missing = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are complete after these bytes, in order.

        Raises FrameTooLarge, after which the connection cannot be used any more.
        """
        frames: list[bytes] = []
        position, end = 0, len(data)
        if self._missing:
            position = min(self._missing, end)
            self._begun.append(data if position == end else data[:position])
            self._missing -= position
            if self._missing:
                return frames
            frames.append(b"".join(self._begun))
            self._begun.clear()
        elif self._head:
            data = self._head + data
            end, self._head = len(data), b""
        while end - position >= _HEAD:
            (size,) = FRAME_SIZE.unpack_from(data, position)
            if not 0 < size <= self.bytes_max:
                raise FrameTooLarge(size)
            position += _HEAD
            if end - position < size:
                self._missing = size - (end - position)
                self._begun.append(data[position:])
                return frames
            frames.append(data[position : position + size])
            position += size
        self._head = data[position:]
        return frames
