"""Reads the high watermarks of a broker's replicas from the broker's journal files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from zabka.journal.event import Event, TopicPartition, snake
from zabka.journal.high_watermarks import TAKEN, high_watermarks_reached
from zabka.journal.reader import decode_line, node_files

READ_BYTES_MAX = 4 * 1024 * 1024
"""Number of bytes read from the end of a journal. Older values are in the high watermark checkpoint."""

_TAGS = tuple(f'"type":"{snake(kind.__name__)}"'.encode() for kind in TAKEN)


def read_high_watermarks(directory: Path, node: str) -> dict[TopicPartition, int]:
    """Return the high watermark of each replica, from the end of a broker's journal files.

    Unreadable lines are skipped. Raises OSError.
    """
    return high_watermarks_reached(_events(_end_of_journal(directory, node)))


def _events(lines: Iterable[bytes]) -> Iterable[Event]:
    for line in lines:
        if any(tag in line for tag in _TAGS):
            try:
                yield decode_line(line).event
            except ValueError:
                continue


def _end_of_journal(directory: Path, node: str) -> list[bytes]:
    """Return the last READ_BYTES_MAX bytes of the node's newest two journal files, as lines.

    The first and the last line may be incomplete.
    """
    data = b""
    for path in reversed(node_files(directory, node)[-2:]):
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - (READ_BYTES_MAX - len(data))))
            data = file.read() + data
        if len(data) >= READ_BYTES_MAX:
            break
    return data.split(b"\n")
