"""Locks journals, so that no second process publishes them to the same topic and writes every line twice.

Brokers fence an earlier producer only if both producers have the same transactional id, and publishers have none. So
this module locks a file next to the journals, whose name depends on the topic or, if that file cannot be created, the
journals' own directory or file. The kernel releases the lock when the process exits, for whatever reason.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from zabka.pipeline.topic.connection import TopicPlace


class NotAlone(Exception):
    """Another process is publishing these journals to this topic."""


@contextmanager
def alone(root: Path, place: TopicPlace, cluster_id: str) -> Iterator[None]:
    """Prevent other processes from publishing the same journals to that topic of that cluster.

    Raises NotAlone if another process is publishing them, and OSError if the journals cannot be opened.
    """
    lock = _opened(root, f"{cluster_id}/{place.topic}")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise NotAlone(
            f"another process publishes {root} to topic {place.topic}: wait until it has ended, or end it"
        ) from None
    finally:
        os.close(lock)


def _opened(root: Path, topic: str) -> int:
    """Open the file to lock. Its name is a digest, because a topic name can be as long as a file name."""
    folder = root if root.is_dir() else root.parent
    name = f"_publishing.{sha256(topic.encode()).hexdigest()[:16]}.lock"
    try:
        return os.open(folder / name, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return os.open(root, os.O_RDONLY | os.O_CLOEXEC)
