"""`python -m scripts.reference`: write every page that is generated from the code."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.reference.lessons import LESSON_PAGES
from scripts.reference.pages import PAGES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main() -> None:
    """Write the pages that have changed and print their names."""
    for folder, pages in (("reference", PAGES), ("lessons", LESSON_PAGES)):
        for name, page in pages.items():
            path, text = DOCS / folder / name, page()
            if not path.exists() or path.read_text() != text:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
                sys.stdout.write(f"docs/{folder}/{name}\n")


if __name__ == "__main__":
    main()
