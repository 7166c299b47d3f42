"""`python -m tools.reference`: write every reference page."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.reference.pages import PAGES

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


def main() -> None:
    """Write the pages that have changed, and name them."""
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"docs/reference/{name}\n")


if __name__ == "__main__":
    main()
