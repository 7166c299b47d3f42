"""Exceptions for an unexpected end of a peer's process."""

from __future__ import annotations


class Stopped(Exception):
    """The peer cannot continue. The message gives the reason."""


class Crashed(Stopped):
    """A bug ended the program: the exception is its `__cause__`."""
