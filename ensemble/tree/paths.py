"""Functions on znode paths, and the znodes that every ensemble has (DataTree)."""

from __future__ import annotations

from zabka.ensemble.znode_paths import ROOT as ROOT

ZOOKEEPER = "/zookeeper"
QUOTA = "/zookeeper/quota"
CONFIG = "/zookeeper/config"
SYSTEM_PATHS = frozenset({ROOT, ZOOKEEPER, QUOTA, CONFIG})
"""Znodes that exist from the start and cannot be deleted (DataTree.isSpecialPath)."""


def parent_of(path: str) -> str:
    """Return the parent's path; the root is its own parent."""
    return path[: path.rfind("/")] or ROOT


def asked_for(path: str) -> str:
    """Return the path that a client means: an empty path means the root, as in DataTree."""
    return path or ROOT


def join(parent: str, name: str) -> str:
    """Return the path of a child."""
    return f"{parent}/{name}" if parent != ROOT else f"/{name}"
