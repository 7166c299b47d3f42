"""Error for a data directory that cannot be used."""

from __future__ import annotations


class DataDirectoryError(Exception):
    """The data directory cannot be used in its present state. The message is one line for the operator."""
