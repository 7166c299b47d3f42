"""Whether a file can be written where somebody wants it, before hours of work are to go there."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def check_output(path: Path | None) -> None:
    """Make the directory that a file is to lie in.  Raises OSError where no file can be written there."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
