"""The lock files of the image's targets: the pins of requirements.lock that each target needs at run time.

requirements.lock also pins the packages that only the tests and linters need. The packages that a target needs are
computed from the metadata of the installed packages. So this module needs an environment with the whole lock installed,
and the result is for the Python and the platform of that environment.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

OF_SPARK = ("numpy", "pandas", "pyarrow", "pyspark", "scipy")
"""The packages that are only needed to build Spark's tables (700 MB)."""
_HEAD = "# Made by `python -m zabka.compose.kept_files` of requirements.lock; change that, not this file.\n"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==")


class Locks(NamedTuple):
    """The content of the two lock files.

    The lock file for Spark contains only packages that the lock file for the nodes does not contain.
    """

    nodes: str
    spark: str


def locks(root: Path) -> Locks:
    """Return the lock files' content for the project in `root`.

    Raises KeyError for a requirement that requirements.lock does not pin.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    of_extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    wanted = [Requirement(line) for line in (*project["dependencies"], *of_extras)]
    # Skip the extra `all`: it consists of the other extras, which are already included.
    wanted = [requirement for requirement in wanted if _name(requirement.name) != project["name"]]
    pins = _pins((root / "requirements.lock").read_text())
    nodes = _closure([r for r in wanted if _name(r.name) not in OF_SPARK])
    everything = _closure(wanted)
    return Locks(_lock(pins, nodes), _lock(pins, everything - nodes))


def _name(name: str) -> str:
    """Return a project's name, normalised (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(lock: str) -> dict[str, str]:
    """Return each pin of a lock file with its hashes, keyed by package name."""
    pins: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        found = _PIN.match(line)
        if found:
            name = _name(found.group(1))
        if name and not line.lstrip().startswith("#"):
            pins[name] = pins.get(name, "") + line
    return pins


def _lock(pins: dict[str, str], names: set[str]) -> str:
    return _HEAD + "".join(pins[name].rstrip("\n").removesuffix("\\").rstrip() + "\n" for name in sorted(names))


def _closure(wanted: list[Requirement]) -> set[str]:
    """Return the names of these requirements and of all packages that they require on this platform."""
    found: dict[str, set[str]] = {}
    open_ends = list(wanted)
    while open_ends:
        asked = open_ends.pop()
        if asked.marker is not None and not asked.marker.evaluate({"extra": ""}):
            continue
        name, extras = _name(asked.name), {"", *asked.extras}
        if name in found and extras <= found[name]:
            continue
        found[name] = found.get(name, set()) | extras
        for line in requires(name) or []:
            further = Requirement(line)
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                further.marker = None
                open_ends.append(further)
    return set(found)
