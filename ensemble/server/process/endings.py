"""Exceptions for an unexpected end of a peer's process."""

from __future__ import annotations


class Stopped(Exception):
    """The peer cannot continue; the message gives the reason."""


class Crashed(Stopped):
    """A bug of the program ended it: the exception is its `__cause__`."""
