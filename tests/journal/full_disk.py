"""A full disk, simulated by a limit on the file size that makes a write incomplete (setrlimit(2))."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """Limit the size of all files that this process writes during the `with` block.

    A write beyond the limit raises OSError, because Python ignores the signal SIGXFSZ.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
