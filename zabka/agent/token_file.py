"""A bearer token in a file: whoever asks for one, and whoever sends it, reads it alike."""

from __future__ import annotations

from pathlib import Path


class BadToken(OSError):
    """The file holds nothing that could be asked for, or sent in a header."""


def read_token(path: Path) -> str:
    """What the file holds, without the white space around it.  Raises BadToken, OSError where it cannot be read."""
    try:
        token = path.read_text().strip()
    except UnicodeDecodeError:
        raise BadToken(f"{path} contains no token: it is not a text file") from None
    if not token:
        raise BadToken(f"{path} contains no token: it is empty")
    if not (token.isascii() and token.isprintable()):
        raise BadToken(f"{path} contains no valid token: it has characters that a header cannot contain")
    return token
