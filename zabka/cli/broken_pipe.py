"""Output to a pipe that is closed at its other end (`| head -1`)."""

from __future__ import annotations


class NobodyReads(Exception):
    """What is written is read by nobody any more."""
