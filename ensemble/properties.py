"""Java properties, the format of zoo.cfg and of an ensemble's configuration."""

from __future__ import annotations

import re

_LINE_END = re.compile(r"\r\n|\n|\r")
"""What Java takes for one; Python's splitlines() knows more."""


def read_properties(text: str) -> dict[str, str]:
    """Key and value of each line; `#` and `!` begin a comment, a trailing backslash continues a line."""
    out: dict[str, str] = {}
    pending = ""
    for line in _LINE_END.split(text):
        line = pending + (line.lstrip() if pending else line.strip())
        pending = ""
        if not line or line[0] in "#!":
            continue
        if line.endswith("\\"):
            pending = line[:-1]
            continue
        ends = [i for i in (line.find("="), line.find(":")) if i >= 0]
        cut = min(ends) if ends else len(line)
        out[line[:cut].strip()] = line[cut + 1 :].strip()
    return out
