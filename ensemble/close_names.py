"""Suggestions for a misspelt name.

A wrong suggestion is worse than none. So a name is suggested only if few letters differ, relative to its length, and
no other name is equally close.
"""

from __future__ import annotations

from collections.abc import Iterable

LENGTH_MIN = 4
"""Minimum length of names to compare.

A shorter name with one letter changed is usually a different word.
"""
LETTERS_PER_EDIT = 5
EDITS_MAX = 3
SEGMENTS_MIN = 3
"""Two dotted names may differ by one missing or extra segment if at least this many other segments match."""


def close_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` is a misspelling of, or None if there is none or more than one."""
    if len(name) < LENGTH_MIN:
        return None
    edits_max = min(max(1, len(name) // LETTERS_PER_EDIT), EDITS_MAX)
    found: dict[int, list[str]] = {}
    for candidate in sorted(set(known) - {name}):
        if _without_digits(candidate) == _without_digits(name):
            continue
        edits = _edits(name.lower(), candidate.lower(), edits_max)
        if edits > edits_max and _segments_differ_by_one(name, candidate):
            edits = edits_max
        if edits <= edits_max:
            found.setdefault(edits, []).append(candidate)
    closest = found[min(found)] if found else []
    return closest[0] if len(closest) == 1 else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean NAME?", or an empty string if no name is close."""
    found = close_name(name, known)
    return "" if found is None else f"; did you mean {found}?"


def _without_digits(name: str) -> str:
    return "".join(letter for letter in name if not letter.isdigit())


def _segments_differ_by_one(one: str, other: str) -> bool:
    shorter, longer = sorted((one.split("."), other.split(".")), key=len)
    if len(longer) - len(shorter) != 1 or len(shorter) < SEGMENTS_MIN:
        return False
    return any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))


def _edits(one: str, other: str, limit: int) -> int:
    """Return the number of letter edits (insert, remove, replace, swap neighbours): optimal string alignment.

    If the number exceeds `limit`, some number above `limit` is returned.
    """
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            edits = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                edits = min(edits, earlier[j - 2] + 1)
            row.append(edits)
    return row[-1]
