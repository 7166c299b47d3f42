"""Validation of znode paths (org.apache.zookeeper.common.PathUtils)."""

from __future__ import annotations

import re

ROOT = "/"

# PathUtils.validatePath checks UTF-16 units. It rejects surrogates, and so every character beyond the basic plane.
_REFUSED = "/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff"
_VALID = re.compile(rf"(?:/(?!\.\.?(?:/|\Z))[^{_REFUSED}]+)+")


def is_valid_path(path: str) -> bool:
    """Return whether a path is valid.

    A valid path is absolute, and has no empty, `.` or `..` component, no trailing slash and no forbidden character.
    """
    return path == ROOT or _VALID.fullmatch(path) is not None
