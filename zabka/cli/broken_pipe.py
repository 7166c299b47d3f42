"""Output to a pipe that is closed at its other end (`| head -1`)."""

from __future__ import annotations


class PipeClosed(Exception):
    """The other end of the output pipe is closed."""
