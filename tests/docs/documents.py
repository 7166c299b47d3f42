"""Find the project's documents, and the fenced code blocks in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
AT_THE_TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One fenced code block: its language, its content, and its position in the document."""

    language: str
    text: str
    begins: int
    ends: int


def documents() -> list[Path]:
    """Return every Markdown document of the project, except those that belong to the site generator."""
    below = [path for path in sorted(DOCS.rglob("*.md")) if "node_modules" not in path.parts]
    return [*(ROOT / name for name in AT_THE_TOP), *below]


def name_of(path: Path) -> str:
    """Return a document's path relative to the repository."""
    return path.relative_to(ROOT).as_posix()


def blocks(text: str) -> list[Block]:
    """Return the fenced code blocks of a document, in order."""
    return [Block(m.group(2), m.group(3), m.start(), m.end()) for m in _FENCE.finditer(text)]


def prose(text: str) -> str:
    """Return a document's text without its fenced code blocks."""
    return _FENCE.sub("", text)


def commands(text: str) -> list[str]:
    """Return the commands of a document's shell blocks, one per line."""
    found = [block.text for block in blocks(text) if block.language == "sh"]
    return [line.strip() for block in found for line in block.splitlines() if line.strip()]
