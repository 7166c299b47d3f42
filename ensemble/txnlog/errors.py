"""Why a data directory cannot be served from."""

from __future__ import annotations


class DataDirectoryError(Exception):
    """The data directory cannot be used as it is; the message is one clear line, meant for the operator."""
