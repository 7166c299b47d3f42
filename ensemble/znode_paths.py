"""Which paths of znodes are valid (org.apache.zookeeper.common.PathUtils)."""

from __future__ import annotations

import re

ROOT = "/"

# PathUtils.validatePath checks UTF-16 units, so it rejects every character beyond the basic plane by its surrogates.
_REFUSED = "/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff"
_VALID = re.compile(rf"(?:/(?!\.\.?(?:/|\Z))[^{_REFUSED}]+)+")


def is_valid_path(path: str) -> bool:
    """Whether a path is absolute, has no empty, `.` or `..` part, no trailing slash and no forbidden character."""
    return path == ROOT or _VALID.fullmatch(path) is not None
