"""Printable strings for a terminal: clients choose parts of a journal, such as their ids."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a string with its control characters escaped, so that a terminal does not interpret them."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
