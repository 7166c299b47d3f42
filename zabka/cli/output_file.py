"""Checks before a long run whether its output files can be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path


class OneForTwo(ValueError):
    """Two outputs name the same file, so the second would overwrite the first."""


def check_two_outputs(journal: Path | None, messages: Path | None) -> None:
    """Create the directories of both files.

    Raises OSError if one of the files cannot be written, OneForTwo if they are the same file.
    """
    check_output(journal)
    check_output(messages)
    if journal is not None and messages is not None and journal.resolve() == messages.resolve():
        raise OneForTwo(f"--out and --messages both name {messages}: the journal would be overwritten")


def check_output(path: Path | None) -> None:
    """Create the directory of an output file. Raises OSError if the file cannot be written there."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
