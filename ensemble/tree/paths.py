"""Znode paths: whose child one is, and which nodes every ensemble has (DataTree)."""

from __future__ import annotations

from zabka.ensemble.znode_paths import ROOT as ROOT

ZOOKEEPER = "/zookeeper"
QUOTA = "/zookeeper/quota"
CONFIG = "/zookeeper/config"
SYSTEM_PATHS = frozenset({ROOT, ZOOKEEPER, QUOTA, CONFIG})
"""Nodes that exist from the start and cannot be deleted (DataTree.isSpecialPath)."""


def parent_of(path: str) -> str:
    """The parent's path; the root is its own."""
    return path[: path.rfind("/")] or ROOT


def asked_for(path: str) -> str:
    """The path of the node that a client's question names: the root answers to the empty path, too (DataTree)."""
    return path or ROOT


def join(parent: str, name: str) -> str:
    """The path of a child."""
    return f"{parent}/{name}" if parent != ROOT else f"/{name}"
