"""Markdown out of tables and names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

GENERATED = "<!-- Made by `python -m scripts.reference` from the code. Change the code, then run it again. -->\n"


def document(title: str, introduction: str, *parts: str) -> str:
    """A whole page: its title, one paragraph of what it is, and its parts, each of which ends its own lines."""
    return "\n".join([GENERATED, f"# {title}\n", f"{introduction}\n", *parts])


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of one line a row; what would break a cell is escaped."""
    lines = [_row(header), _row(["---"] * len(header)), *(_row([cell(text) for text in row]) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def cell(text: str) -> str:
    """A text as it may stand in a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """A name or value in the typeface of code; nothing where it is empty."""
    return f"`{text}`" if text else ""


def sentence(docstring: str | None) -> str:
    """A docstring as one paragraph."""
    return " ".join(inspect.cleandoc(docstring or "").split())


def mermaid(text: str) -> str:
    """A diagram."""
    return f"```mermaid\n{text.rstrip()}\n```\n"
