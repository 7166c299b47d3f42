"""A disk that is full, as the kernel has it: the limit of a file's size cuts a write short (setrlimit(2))."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """While the block lasts, no file of this process may be larger; Python turns the signal into an OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
