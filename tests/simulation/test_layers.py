"""The packages of the simulated world form layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "zabka"
LAYERS = (
    ("kernel",),
    ("network", "disks", "filesystem"),
    ("settings", "record", "processes"),
    ("nodes",),
    ("judges",),
    ("world",),
    ("faults", "workloads"),
    ("seeds",),
    ("serving",),
    ("cores",),
    ("scenarios",),
    ("lessons",),
    ("run",),
    ("search",),
)
"""Packages by layer, lowest first. A package imports from itself and lower layers, not from others of its layer."""
HEIGHT = {room: height for height, layer in enumerate(LAYERS) for room in layer}


def imported(path: Path) -> Iterator[str]:
    """Yield the simulation packages that a file imports, including imports in functions and for type checkers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        else:
            continue
        yield from (module.split(".")[2] for module in modules if module.startswith("zabka.simulation."))


def test_every_simulation_package_has_a_layer() -> None:
    rooms = {path.relative_to(ROOT / "simulation").parts[0] for path in (ROOT / "simulation").rglob("*.py")}
    assert {room.removesuffix(".py") for room in rooms} - {"__init__"} == set(HEIGHT)


@pytest.mark.parametrize("room", HEIGHT)
def test_simulation_package_imports_only_lower_layers(room: str) -> None:
    files = [ROOT / "simulation" / f"{room}.py", *(ROOT / "simulation" / room).rglob("*.py")]
    upward = {
        f"{path.relative_to(ROOT)} imports from {other}"
        for path in files
        if path.exists()
        for other in imported(path)
        if other != room and HEIGHT[other] >= HEIGHT[room]
    }
    assert not upward
