"""Prints the oldest version of each requirement that pyproject.toml accepts, as pip constraints.

`python scripts/setup/floors.py [EXTRA …]` prints the constraints of a plain installation and of these extras.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FLOOR = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:>=|==)(?P<version>[0-9.]+)")


def floors(extras: Sequence[str]) -> list[str]:
    """Return one constraint per requirement.

    Raises KeyError for an unknown extra, ValueError if a requirement has no minimum version.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    # An extra repeats a requirement of the plain installation only if it needs a newer version, so later lines replace
    # earlier ones.
    pinned = dict(_floor(line) for line in lines if not line.startswith(f"{project['name']}["))
    return [f"{name}=={version}" for name, version in pinned.items()]


def _floor(requirement: str) -> tuple[str, str]:
    found = _FLOOR.match(requirement)
    if found is None:
        raise ValueError(f"{requirement!r} names no oldest version")
    return found["name"], found["version"]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in floors(sys.argv[1:])))
