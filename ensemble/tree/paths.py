"""Znode paths: what is valid, whose child it is, and which nodes every ensemble has (PathUtils, DataTree)."""

from __future__ import annotations

import re

ROOT = "/"
ZOOKEEPER = "/zookeeper"
QUOTA = "/zookeeper/quota"
CONFIG = "/zookeeper/config"
SYSTEM_PATHS = frozenset({ROOT, ZOOKEEPER, QUOTA, CONFIG})
"""Nodes that exist from the start and cannot be deleted (DataTree.isSpecialPath)."""

# PathUtils.validatePath judges UTF-16 units, so it refuses every character beyond the basic plane by its surrogates.
_REFUSED = "/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff"
_VALID = re.compile(rf"(?:/(?!\.\.?(?:/|\Z))[^{_REFUSED}]+)+")


def is_valid_path(path: str) -> bool:
    """Whether a path is absolute, has no empty, `.` or `..` part, no trailing slash and no refused character."""
    return path == ROOT or _VALID.fullmatch(path) is not None


def parent_of(path: str) -> str:
    """The parent's path; the root is its own."""
    return path[: path.rfind("/")] or ROOT


def join(parent: str, name: str) -> str:
    """The path of a child."""
    return f"{parent}/{name}" if parent != ROOT else f"/{name}"
