"""Packages of the simulated world form layers: a package imports only packages of lower layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "zabka"
LAYERS = (
    ("choices",),
    ("forked_seed",),
    ("jitter",),
    ("draws",),
    ("filesystem",),
    ("engine",),
    ("settings", "record"),
    ("checkers",),
    ("cluster",),
    ("workloads",),
    ("mirror",),
    ("faults",),
    ("seeds",),
    ("steps",),
    ("scenarios",),
    ("fork",),
    ("run",),
    ("search",),
)
"""Packages in layers, from the lowest to the highest.

A package imports only itself and packages of lower layers, not other packages of its layer.
"""
HEIGHT = {package: height for height, layer in enumerate(LAYERS) for package in layer}


def imported(path: Path) -> Iterator[str]:
    """Yield the packages of `zabka.simulation` that a file imports, also in functions and for type checkers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        else:
            continue
        yield from (module.split(".")[2] for module in modules if module.startswith("zabka.simulation."))


def test_every_simulation_package_has_a_layer() -> None:
    packages = {path.relative_to(ROOT / "simulation").parts[0] for path in (ROOT / "simulation").rglob("*.py")}
    assert {package.removesuffix(".py") for package in packages} - {"__init__"} == set(HEIGHT)


@pytest.mark.parametrize("package", HEIGHT)
def test_simulation_package_imports_only_lower_layers(package: str) -> None:
    files = [ROOT / "simulation" / f"{package}.py", *(ROOT / "simulation" / package).rglob("*.py")]
    upward = {
        f"{path.relative_to(ROOT)} imports from {other}"
        for path in files
        if path.exists()
        for other in imported(path)
        if other != package and HEIGHT[other] >= HEIGHT[package]
    }
    assert not upward
