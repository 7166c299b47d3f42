"""The journal lines of a cluster's nodes, as dictionaries, in the order of the monotonic clock."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
NOT_RUNNING = ("down", "paused")


def read(data: Path) -> list[Row]:
    """Return all journal lines of all nodes.

    Files with messages are skipped, because they contain no events.
    """
    files = [file for file in data.glob("*/journal/*.jsonl") if ".messages." not in file.name]
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted(lines, key=lambda line: (line["mono_us"], line["node"], line["node_seq"]))


def of_type(lines: Iterable[Row], *types: str) -> list[Row]:
    """Return the lines with one of these event types."""
    return [line for line in lines if line["type"] in types]


def ms(since: Row, until: Row | None) -> int | None:
    """Return the time between two lines in whole ms on the shared monotonic clock.

    Return None if there is no second line.
    """
    return None if until is None else (until["mono_us"] - since["mono_us"]) // 1000


def wall(line: Row | None) -> int | None:
    """Return the time of a line on the wall clock of its node, or None if there is no line."""
    return None if line is None else line["wall_us"]
