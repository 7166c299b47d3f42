"""Every link between documents has a target, and every path and code name in the documents exists."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.docs.documents import AT_THE_TOP, ROOT, documents, name_of, prose

DOCUMENTS = [pytest.param(path, id=name_of(path)) for path in documents()]
CURRENT = [param for param in DOCUMENTS if param.id != "CHANGELOG.md"]
"""All documents except the changelog, which describes earlier versions."""
OF_MODULES = [param for param in CURRENT if not param.id.endswith("-keys.md")]
"""Documents that do not list Kafka's config keys.

Such keys look like module names: they contain dots, and start with the name of one of the project's packages.
"""
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)")
_CODE = re.compile(r"`([^`\n]+)`")
_DEFINED = re.compile(r"`([A-Za-z_]\w*)`\s\(`([\w.-]+/[\w./-]*)`\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@cache
def tracked() -> frozenset[str]:
    """Return all files of the repository that git tracks or does not ignore, and their folders."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    files = [name for name in listed if (ROOT / name).exists()]
    folders = {parent.as_posix() for name in files for parent in Path(name).parents}
    return frozenset((*files, *folders))


@cache
def packages() -> frozenset[str]:
    return frozenset(name for name in tracked() if "/" not in name and (ROOT / name).is_dir() and name != ".")


@cache
def sources(place: str) -> str:
    """Return all Python and JavaScript source of a file or folder as one string."""
    path = ROOT / place
    found = [path] if path.is_file() else sorted((*path.rglob("*.py"), *path.rglob("*.js")))
    return "\n".join(each.read_text() for each in found)


def anchors(text: str) -> set[str]:
    """Return the anchors that a Git forge derives from headings: lower case, hyphens for spaces, no punctuation."""
    plain = (re.sub(r"[`*]", "", heading) for heading in _HEADING.findall(prose(text)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def is_defined(name: str, place: str) -> bool:
    """Return whether a class, function or constant with that name is defined in that file or folder."""
    defined = rf"^\s*(?:(?:async )?def|class|export function|const|export const) {name}\b|^{name}\b.*=|^{name}:"
    return re.search(defined, sources(place), re.MULTILINE) is not None


def is_code(dotted: str) -> bool:
    """Return whether `package.module.Name` is a module or an object in a module."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:size])
        module = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        if module.is_file() and (size > 1 or len(parts) == 1 or path.is_dir()):
            return all(re.search(rf"\b{name}\b", module.read_text()) for name in parts[size:])
    return False


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_link_in_the_documents_has_a_target(path: Path) -> None:
    wrong = []
    for target, anchor in _LINK.findall(prose(path.read_text())):
        found = (path.parent / target).resolve() if target else path
        if not found.exists():
            wrong.append(target)
        elif anchor and anchor not in anchors(found.read_text()):
            wrong.append(f"{target}#{anchor}")
    assert wrong == []


@pytest.mark.parametrize("path", CURRENT)
def test_every_documented_path_exists(path: Path) -> None:
    named = [
        token.rstrip("/")
        for token in _CODE.findall(prose(path.read_text()))
        if re.fullmatch(r"[\w./-]+", token) and ("/" in token[1:] or token in AT_THE_TOP)
    ]
    wrong = [token for token in named if token.split("/")[0] in packages() and token not in tracked()]
    assert wrong == []


@pytest.mark.parametrize("path", CURRENT)
def test_every_documented_name_is_defined_in_the_stated_file(path: Path) -> None:
    text = prose(path.read_text())
    wrong = [f"{name} in {place}" for name, place in _DEFINED.findall(text) if not is_defined(name, place)]
    assert wrong == []


@pytest.mark.parametrize("path", OF_MODULES)
def test_every_documented_module_exists(path: Path) -> None:
    # Skip names that begin with `zabka.`: they are config keys, although a package has this name.
    dotted = [t for t in _CODE.findall(prose(path.read_text())) if re.fullmatch(r"(?!zabka\.)[a-z_]\w*(\.\w+)+", t)]
    wrong = [t for t in dotted if t.split(".")[0] in packages() and (ROOT / t.split(".")[0] / "__init__.py").is_file()]
    assert [token for token in wrong if not is_code(token)] == []
