"""Allowed imports between the packages of `ensemble`.

For example, `zab` imports neither `tree` nor the tree's files.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = (
    ("zabka.ensemble.auth",),
    ("zabka.ensemble.zab",),
    ("zabka.ensemble.tree",),
    ("zabka.ensemble.txnlog",),
    ("zabka.ensemble.server.config", "zabka.ensemble.client"),
    ("zabka.ensemble.server.net",),
    ("zabka.ensemble.server.operator",),
    ("zabka.ensemble.server.process",),
)
"""Packages in layers, from the lowest to the highest. A package imports only itself and packages of lower layers."""
ONLY_RECORDS_AND_AUTH = ("zabka.ensemble.client",)
PACKAGES = [package for layer in LAYERS for package in layer]


def imported_by(package: str) -> set[str]:
    found: set[str] = set()
    for path in (ROOT / package.removeprefix("zabka.").replace(".", "/")).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
    return {other for other in PACKAGES for name in found if f"{name}.".startswith(f"{other}.")} - {package}


@pytest.mark.parametrize("package", PACKAGES)
def test_package_imports_only_lower_layers(package: str) -> None:
    below: set[str] = set()
    for layer in LAYERS:
        if package in layer:
            break
        below |= set(layer)
    allowed = {"zabka.ensemble.auth"} if package in ONLY_RECORDS_AND_AUTH else below
    assert sorted(imported_by(package) - allowed) == []


def test_shared_type_modules_import_no_packages() -> None:
    for path in (*(ROOT / "ensemble").glob("*.py"), *(ROOT / "ensemble/records").glob("*.py")):
        names = [
            node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module
        ]
        assert [name for name in names if f"{name}.".startswith(tuple(f"{other}." for other in PACKAGES))] == []
