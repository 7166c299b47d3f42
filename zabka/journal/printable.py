"""Escapes control characters in strings before they are printed on a terminal.

A journal contains strings that clients choose, such as client ids.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a string with its control characters escaped, so that a terminal does not interpret them."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
