"""Style rules that a program can check."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from tests.house.packages import PACKAGES, ROOT, folder_of, name_of, nodes_of, text_of

FOLDERS = (*map(folder_of, PACKAGES), ROOT / "scripts", ROOT / "bench")
MODULES = [name_of(path) for folder in FOLDERS for path in sorted(folder.rglob("*.py"))]
LINES_MAX = 800
POSITIONAL_MAX = 6
TAKES_ANY_NUMBER = {"pack", "pack_into", "pack_stat", "_pack_digested", "select", "agg"}
"""Functions that can have more than six positional arguments: a list of values (struct) or of columns (Spark)."""
TOO_OFTEN_TO_NAME = {
    "ensemble/tree/plain_proposals.py:self._set_data",  # 10 ns more; once per write, as the calls below
    "ensemble/tree/plain_proposals.py:self._create",  # 10 ns more
    "ensemble/tree/plain_proposals.py:plain_set_data_bytes",  # 140 ns, and 8 more
    "ensemble/tree/plain_proposals.py:plain_create_bytes",  # 142 ns, and 10 more
}
"""Functions (module:function) that are allowed to have many positional arguments.

Every write or read calls them, and a Python function takes 5 ns for each keyword argument. For msgspec classes this is
1 ns, which is less than the variation of the measurements.
"""
FUNCTION_LINES_MAX = 75
BANNED_NAMES = {"utils.py", "helpers.py", "misc.py", "common.py", "manager.py"}


def test_every_module_is_small() -> None:
    long = {name: lines for name in MODULES if (lines := len(text_of(name).splitlines())) > LINES_MAX}
    assert long == {}


def test_every_module_has_a_specific_name() -> None:
    assert [name for name in MODULES if Path(name).name in BANNED_NAMES] == []


def test_every_function_fits_a_screen() -> None:
    long = [
        f"{name}: {node.name} ({size} lines)"
        for name in MODULES
        for node in nodes_of(name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_call_with_many_arguments_uses_keywords() -> None:
    unnamed = [
        f"{name}:{node.lineno}: {ast.unparse(node.func)} ({count})"
        for name in MODULES
        for node in nodes_of(name)
        if isinstance(node, ast.Call)
        and (count := sum(not isinstance(argument, ast.Starred) for argument in node.args)) > POSITIONAL_MAX
        and (called := ast.unparse(node.func)).rpartition(".")[2] not in TAKES_ANY_NUMBER
        and f"{name}:{called}" not in TOO_OFTEN_TO_NAME
    ]
    assert unnamed == []


def _tracked_text() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file() and not name.endswith(".png")]


FOREIGN = re.compile(
    r"p[y]pi\.org|pythonh[o]sted|registry\.n[p]mjs|repo1?\.m[a]ven|proxy\.g[o]lang|deb\.d[e]bian\.org|/w[o]rk/|/r[o]ot/|\.p[y]env/"
)
UNFINISHED = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b|Not[I]mplementedError")


def test_no_file_contains_a_registry_url_or_machine_path() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in _tracked_text()
        if (match := FOREIGN.search(path.read_text(errors="replace")))
    ]
    assert wrong == []


def test_module_contains_no_unfinished_code() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in _tracked_text()
        if path.suffix in {".py", ".js"} and (match := UNFINISHED.search(path.read_text(errors="replace")))
    ]
    assert wrong == []


def test_lock_file_pins_every_package_by_hash() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pinned = [line for line in lines if "==" in line and not line.lstrip().startswith("#")]
    assert pinned
    assert all(line.rstrip().endswith("\\") for line in pinned), "a pin without hashes"


def test_web_page_lock_file_has_no_download_address() -> None:
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text()
