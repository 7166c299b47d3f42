"""Write the lessons as interactive HTML pages into a folder: `python -m scripts.lesson_pages
build/site/lessons/play`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from zabka.api.exports.lesson_page import file_name, lesson_page
from zabka.simulation.scenarios.lessons import LESSONS


def main(folder: Path) -> None:
    """Write one HTML file per lesson."""
    folder.mkdir(parents=True, exist_ok=True)
    for lesson in LESSONS.values():
        path = folder / file_name(lesson)
        path.write_text(lesson_page(lesson))
        print(f"{path}: {path.stat().st_size / 1_000_000:.2f} MB")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
