"""Markdown helpers: pages, tables, code and diagrams."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

GENERATED = "<!-- Made by `python -m scripts.reference` from the code. Change the code, then run it again. -->\n"


def document(title: str, introduction: str, *parts: str) -> str:
    """Return a whole page: its title, an introductory paragraph, and its parts, each of which ends with a newline."""
    return "\n".join([GENERATED, f"# {title}\n", f"{introduction}\n", *parts])


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with one line per row; text that would break a cell is escaped."""
    lines = [_row(header), _row(["---"] * len(header)), *(_row([cell(text) for text in row]) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def cell(text: str) -> str:
    """Escape a string for a table cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return a name or value as inline code, or an empty string if it is empty."""
    return f"`{text}`" if text else ""


def sentence(docstring: str | None) -> str:
    """Return a docstring as one paragraph, or an empty string for None."""
    return " ".join(inspect.cleandoc(docstring or "").split())


def mermaid(text: str) -> str:
    """Return a fenced Mermaid diagram."""
    return f"```mermaid\n{text.rstrip()}\n```\n"
