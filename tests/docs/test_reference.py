"""The committed reference pages are equal to what the generator writes for the current code."""

from __future__ import annotations

import pytest

from scripts.reference.lessons import LESSON_PAGES
from scripts.reference.pages import PAGES
from tests.docs.documents import DOCS

SLOW = "state-machines.md"
"""Page that is slow to generate, because its generator simulates many seeds."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name == SLOW else []) for name in PAGES]
)
def test_reference_page_is_up_to_date(name: str) -> None:
    assert (DOCS / "reference" / name).read_text() == PAGES[name](), "run `make reference`"


def test_every_reference_page_is_generated_from_code() -> None:
    assert sorted(path.name for path in (DOCS / "reference").glob("*.md")) == sorted((*PAGES, "index.md"))


@pytest.mark.parametrize("name", LESSON_PAGES)
def test_lesson_page_is_up_to_date(name: str) -> None:
    assert (DOCS / "lessons" / name).read_text() == LESSON_PAGES[name](), "run `make reference`"


def test_every_lesson_page_is_generated_from_the_lessons() -> None:
    assert sorted(path.name for path in (DOCS / "lessons").glob("*.md")) == sorted(LESSON_PAGES)
