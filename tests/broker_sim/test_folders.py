"""The broker's packages have an order: each imports only packages before it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

BROKER_SIM = Path(__file__).resolve().parents[2] / "broker_sim"
ORDER = ("configs", "authorizer", "quotas", "logs", "replication", "groups", "handlers")


def imported(module: Path) -> set[str]:
    return {
        node.module
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    }


@pytest.mark.parametrize("folder", ORDER)
def test_package_imports_only_packages_of_lower_layers(folder: str) -> None:
    later = [f"zabka.broker_sim.{name}" for name in ORDER[ORDER.index(folder) + 1 :]]
    modules = list((BROKER_SIM / folder).glob("*.py"))
    assert len(modules) > 1
    upward = [(each.name, name) for each in modules for name in imported(each) if name.startswith(tuple(later))]
    assert upward == []
