"""Find the packages of `zabka`, and the folder of each package.

Five packages have their folder at the top level of the repository, and `zabka` contains a symbolic link to each.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AT_THE_TOP = ("api", "broker_sim", "compose", "controller", "ensemble")
PACKAGES = (
    "journal", "ensemble", "kafka", "controller", "broker_sim", "simulation", "pipeline", "agent", "api", "compose",
    "testing", "cli",
)  # fmt: skip


def folder_of(package: str) -> Path:
    """Return the folder that contains the package's files."""
    return ROOT / package if package in AT_THE_TOP else ROOT / "zabka" / package


def files_of(package: str) -> list[Path]:
    """Return the package's Python files in order."""
    return sorted(folder_of(package).rglob("*.py"))


def name_of(path: Path) -> str:
    """Return the file's path relative to the repository root."""
    return path.relative_to(ROOT).as_posix()


@cache
def text_of(name: str) -> str:
    """Return the text of a file, which is named relative to the repository root."""
    return (ROOT / name).read_text()


@cache
def nodes_of(name: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a module's syntax tree; the first is the module. The tests share each tree."""
    return tuple(ast.walk(ast.parse(text_of(name))))


def module_of(path: Path) -> str:
    """Return the dotted name with which a package's file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    dotted = ".".join(parts if parts[0] == "zabka" else ("zabka", *parts))
    return dotted.removesuffix(".__init__")


def package_of(module: str) -> str:
    """Return the project's package that contains an imported name, or an empty string for a third-party name."""
    first, *rest = module.split(".")
    return rest[0] if first == "zabka" and rest else ""
