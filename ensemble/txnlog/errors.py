"""Error for a data directory that cannot be used."""

from __future__ import annotations


class DataDirectoryError(Exception):
    """The data directory cannot be used as it is; the message is one line for the operator."""
