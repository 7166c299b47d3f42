"""Each room says what it is, and the tests stand where what they test stands."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file() and path.name != "tests")
PACKAGES = sorted(
    path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("__init__.py")
)  # fmt: skip
SENTENCES_MIN = 3
_SENTENCE = re.compile(r"[\w`\"')\]][.?!](?=\s|$)")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_says_what_it_is_who_may_import_it_and_where_to_begin(name: str) -> None:
    said = ast.get_docstring(ast.parse((ROOT / name).read_text())) or ""
    assert len(_SENTENCE.findall(said)) >= SENTENCES_MIN, f"{name} says {said!r}"


def test_a_rooms_tests_stand_in_folders_named_as_the_rooms_parts() -> None:
    strays = [
        folder.relative_to(ROOT).as_posix()
        for room in ROOMS
        for folder in sorted((ROOT / "tests" / room).rglob("*"))
        if (folder / "__init__.py").is_file()
        and not (part := ROOT / folder.relative_to(ROOT / "tests")).is_dir()
        and not part.with_suffix(".py").is_file()
    ]
    assert strays == []
