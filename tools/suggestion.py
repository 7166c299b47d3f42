"""Suggestions for mistyped names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_CUTOFF = 0.6


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a sentence, after a space, that names the most similar known name; an empty text if none is similar."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=_CUTOFF)
    return f" Did you mean {near[0]}?" if near else ""
