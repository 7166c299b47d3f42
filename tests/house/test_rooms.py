"""Each package has a description, and each test folder has the name of the package that it tests."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.packages import PACKAGES, ROOT, folder_of, name_of

FOLDERS = {**{name: folder_of(name) for name in PACKAGES}, **{name: ROOT / name for name in ("bench", "scripts")}}
INITS = sorted(name_of(path) for folder in FOLDERS.values() for path in folder.rglob("__init__.py"))
SENTENCES_MIN = 3
_SENTENCE = re.compile(r"[\w`\"')\]][.?!](?=\s|$)")


@pytest.mark.parametrize("name", INITS)
def test_package_docstring_explains_purpose_importers_and_start(name: str) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / name).read_text())) or ""
    assert len(_SENTENCE.findall(docstring)) >= SENTENCES_MIN, f"{name} has only the docstring {docstring!r}"


def test_each_test_folder_matches_a_package_or_module() -> None:
    strays = [
        name_of(folder)
        for package, home in FOLDERS.items()
        for folder in sorted((ROOT / "tests" / package).rglob("*"))
        if (folder / "__init__.py").is_file()
        and not (part := home / folder.relative_to(ROOT / "tests" / package)).is_dir()
        and not part.with_suffix(".py").is_file()
    ]
    assert strays == []
