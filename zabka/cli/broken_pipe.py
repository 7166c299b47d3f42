"""The error for a closed output pipe, as in `| head -1`."""

from __future__ import annotations


class PipeClosed(Exception):
    """The other end of the output pipe is closed."""
