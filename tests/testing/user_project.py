"""A user's project for tests: its packages have the same names as zabka's, and its tests use zabka's fixtures."""

from __future__ import annotations

from pathlib import Path

PACKAGES = ("api", "tools", "testing", "journal", "controller")
TESTS = """
import importlib

import pytest


@pytest.mark.parametrize("name", {packages!r})
def test_the_project_imports_its_own_package(name):
    assert importlib.import_module(name + ".main").OWNER == "user"


def test_a_world_runs(zabka_world):
    zabka_world.topics.create("orders")
    zabka_world.produce("orders", ["a"])
    assert zabka_world.consume("orders") == ["a"]
"""
LIVE_TEST = """
def test_a_cluster_runs(zabka_cluster):
    zabka_cluster.topics.create("orders")
    zabka_cluster.produce("orders", ["a"])
    assert zabka_cluster.consume("orders") == ["a"]
"""
PYPROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "ledger"
version = "1"

[tool.setuptools]
packages = {{ find = {{ where = [{where!r}], include = {packages!r} }} }}
"""
TESTS_COUNT = len(PACKAGES) + 1


def write_project(directory: Path, *, src: bool, live: bool = False) -> Path:
    """Write the project, with its packages either at the top level or in `src`. Return the folder of its packages."""
    where = directory / "src" if src else directory
    for name in PACKAGES:
        (where / name).mkdir(parents=True)
        (where / name / "__init__.py").write_text("")
        (where / name / "main.py").write_text('OWNER = "user"\n')
    (directory / "test_ledger.py").write_text(TESTS.format(packages=PACKAGES) + (LIVE_TEST if live else ""))
    (directory / "pyproject.toml").write_text(
        PYPROJECT.format(where="src" if src else ".", packages=[f"{name}*" for name in PACKAGES]).replace("'", '"')
    )
    return where
