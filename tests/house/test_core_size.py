"""Disk size of a plain installation: the files of zabka and of all requirements without extras."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.house.packages import ROOT

CORE_MB = 30
"""Maximum size without the bytecode that Python adds (19 MB in 3.11), which depends on the installer."""
ABSENT = {"typer", "rich", "pygments", "httpx", "pydantic-settings", "sse-starlette", "prometheus-client", "pyspark"}


def required(lines: list[str], found: set[str]) -> set[str]:
    """Return the distributions that these requirements install, including indirect ones."""
    for requirement in map(Requirement, lines):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            required(distribution(name).requires or [], found)
    return found


CORE = required(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"], set())


def files_of_the_core() -> Iterator[Path]:
    for name in CORE:
        yield from (Path(str(file.locate())) for file in distribution(name).files or () if file.suffix != ".pyc")
    for folder in (ROOT / "zabka").iterdir():
        yield from (path for path in folder.resolve().rglob("*") if path.suffix != ".pyc")


def test_plain_installation_has_neither_commands_nor_web_page() -> None:
    assert {"fastapi", "uvicorn", "kio", "msgspec"} <= CORE
    assert CORE.isdisjoint(ABSENT)


def test_plain_installation_is_below_its_size_limit() -> None:
    megabytes = sum(path.stat().st_size for path in files_of_the_core() if path.is_file()) / 1e6
    assert 20 < megabytes < CORE_MB
