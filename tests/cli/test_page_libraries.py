"""A wheel contains the page's JavaScript libraries; building it fails if npm has not installed them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("setuptools")
from scripts.setup.page_libraries import LIBRARIES, LibrariesMissing, carry_libraries

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "api" / "web"
NOT_INSTALLED = not (ROOT / "node_modules" / "lit-html" / "LICENSE").is_file()


def loaded_by_the_page() -> set[str]:
    """Return all library files that the page's files load, as paths under /lib."""
    text = "\n".join(path.read_text() for path in PAGE.rglob("*") if path.suffix in {".js", ".html", ".css"})
    named = set(re.findall(r'["(]/lib/([a-z-]+/[\w./-]+\.(?:js|css))', text))
    return named | {f"lit-html/{name}" for name in re.findall(r'"lit-html/([\w./-]+\.js)"', text)}


@pytest.mark.skipif(NOT_INSTALLED, reason="npm has not installed the page's libraries (make setup)")
def test_wheel_has_all_page_libraries_and_their_licences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    carried = {path.relative_to(tmp_path).as_posix(): path for path in carry_libraries(tmp_path)}

    assert loaded_by_the_page() <= set(carried)
    for name, path in carried.items():
        if path.suffix == ".js":
            for other in re.findall(r'from"(\./[\w./-]+|\.\./[\w./-]+)"', path.read_text()):
                assert (path.parent / other).resolve().is_file(), f"{name} imports {other}"
    assert "Copyright" in carried["lit-html/LICENSE"].read_text()


@pytest.mark.parametrize(("npm", "command"), [("/bin/npm", "npm ci --omit=dev --ignore-scripts"), (None, "make setup")])
def test_missing_page_libraries_error_has_the_npm_command(
    npm: str | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: npm)
    with pytest.raises(LibrariesMissing, match=f"lit-html.*run this first: {command}$"):
        carry_libraries(tmp_path / "built")
    assert not (tmp_path / "built").exists()


def test_source_distribution_with_libraries_needs_no_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LIBRARIES:
        (tmp_path / "zabka" / "api" / "page_libraries" / name).mkdir(parents=True)
        (tmp_path / "zabka" / "api" / "page_libraries" / name / "LICENSE").write_text("free")
    monkeypatch.chdir(tmp_path)
    assert {path.relative_to(tmp_path / "built").as_posix() for path in carry_libraries(tmp_path / "built")} == {
        f"{name}/LICENSE" for name in LIBRARIES
    }
