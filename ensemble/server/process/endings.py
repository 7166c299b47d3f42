"""How a peer's process ends that was not told to."""

from __future__ import annotations


class Stopped(Exception):
    """The peer cannot go on; the message says why."""


class Crashed(Stopped):
    """A fault of the program's own ended it: what was raised is its `__cause__`."""
