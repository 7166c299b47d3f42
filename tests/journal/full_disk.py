"""A full disk as the kernel reports it: a file size limit that makes a write incomplete (setrlimit(2))."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """Limit the size of this process's files for the duration of the block. Python turns the signal into an OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
