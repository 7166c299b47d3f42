"""The page's stylesheets: each CSS class has the same meaning in all of them."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

CSS = Path(__file__).resolve().parents[2] / "api" / "web" / "css"
BARE = re.compile(r"\.[\w-]+")


def bare_classes(path: Path) -> set[str]:
    """Return the classes that have a rule of their own (`.name {`); rules in media queries are ignored."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    text = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", text)
    selectors = [each.strip() for block in re.findall(r"([^{}]+)\{", text) for each in block.split(",")]
    return {each for each in selectors if BARE.fullmatch(each)}


def test_css_class_is_styled_in_only_one_stylesheet() -> None:
    """Each CSS class is styled in one stylesheet only.

    Rules for one class in two stylesheets conflict: before the fix, the height of one panel's list cut off another tab.
    """
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(CSS.glob("*.css")):
        for name in bare_classes(path):
            places[name].append(path.name)
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
