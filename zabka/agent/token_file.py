"""Reads a bearer token from a file. Servers and clients use the same code."""

from __future__ import annotations

from pathlib import Path


class BadToken(OSError):
    """The file does not contain a token that is allowed in an HTTP header."""


def read_token(path: Path) -> str:
    """Return the token in a file, without surrounding white space.

    Raises BadToken, or OSError if the file cannot be read.
    """
    try:
        token = path.read_text().strip()
    except UnicodeDecodeError:
        raise BadToken(f"{path} contains no token: it is not a text file") from None
    if not token:
        raise BadToken(f"{path} contains no token: it is empty")
    if not (token.isascii() and token.isprintable()):
        raise BadToken(f"{path} contains no valid token: it has characters that a header cannot contain")
    return token
