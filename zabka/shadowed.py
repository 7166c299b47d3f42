"""Whether somebody else's package hides one of zabka's rooms."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

ROOMS = (
    "api", "broker_sim", "compose", "controller", "ensemble", "journal", "kafka_protocol", "pipeline", "simulation",
    "testing", "tools",
)  # fmt: skip
HOME = Path(__file__).resolve().parent.parent
_WHAT_TO_DO = (
    "rename yours, put it below a package of its own, or run zabka's tests from a directory that does not hold it"
)


def shadowed(rooms: Iterable[str] = ROOMS, home: Path = HOME) -> str | None:
    """The sentence about the first room that is found elsewhere than with zabka; None where all are zabka's."""
    for room in rooms:
        place = _place(room)
        if place != home / room:
            found = "is not found" if place is None else f"is hidden by {place}"
            return f"zabka's package {room!r} {found}: {_WHAT_TO_DO}"
    return None


def _place(name: str) -> Path | None:
    """The folder of a package as an import would find it now."""
    module = sys.modules.get(name)
    spec = module.__spec__ if module is not None else find_spec(name)
    if spec is None:
        return None
    if spec.origin is not None:
        return Path(spec.origin).resolve().parent
    # A folder without __init__.py.
    return next((Path(place).resolve() for place in spec.submodule_search_locations or ()), None)


def same_names(directory: Path, home: Path = HOME) -> list[str]:
    """The rooms that a directory has packages or modules of its own by the name of; none in zabka's own tree."""
    if directory.resolve() == home:
        return []
    return [
        room for room in ROOMS if (directory / room / "__init__.py").is_file() or (directory / f"{room}.py").is_file()
    ]
