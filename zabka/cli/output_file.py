"""Whether a file can be written where somebody wants it, before hours of work are to go there."""

from __future__ import annotations

import errno
import os
from pathlib import Path


class OneForTwo(ValueError):
    """Two outputs were to go to one file, of which one would be left."""


def check_two_outputs(journal: Path | None, messages: Path | None) -> None:
    """Make the directories that both are to lie in.  Raises OSError where one cannot be written, and OneForTwo."""
    check_output(journal)
    check_output(messages)
    if journal is not None and messages is not None and journal.resolve() == messages.resolve():
        raise OneForTwo(f"--out and --messages both name {messages}: the journal would be overwritten")


def check_output(path: Path | None) -> None:
    """Make the directory that a file is to lie in.  Raises OSError where no file can be written there."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
