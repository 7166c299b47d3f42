"""The committed reference pages are what the code makes."""

from __future__ import annotations

import pytest

from tests.docs.documents import DOCS
from tools.reference.pages import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_up_to_date(name: str) -> None:
    assert (DOCS / "reference" / name).read_text() == PAGES[name](), "run `make reference`"


def test_every_page_of_the_reference_is_made_from_code() -> None:
    assert sorted(path.name for path in (DOCS / "reference").glob("*.md")) == sorted((*PAGES, "index.md"))
