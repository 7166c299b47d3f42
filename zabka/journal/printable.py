"""Text of a journal for a terminal: clients choose a part of it, such as their ids."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text with its control characters escaped, so that a terminal does not interpret them."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
