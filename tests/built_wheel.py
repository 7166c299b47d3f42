"""zabka's wheel, built from the repository's files (untracked ones too), and the Python versions on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13")


def run(*command: object, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command and return its output.

    If no package index is reachable, skip the test, or fail it in CI.
    """
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    output = done.stdout + done.stderr
    if "No matching distribution found" in output and "CI" not in os.environ:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, output
    return done.stdout


def copy_tree(tree: Path) -> None:
    """Copy to `tree` all files that git tracks or does not ignore. Symbolic links stay links."""
    for name in run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name, follow_symlinks=False)


def build_wheel(directory: Path) -> Path:
    """Build the wheel in a folder below `directory`, and return the wheel's path."""
    if not (ROOT / "node_modules" / "lit-html" / "LICENSE").is_file():
        pytest.skip("npm has not installed the page's libraries (make setup)")
    tree, built = directory / "tree", directory / "built"
    copy_tree(tree)
    shutil.copytree(ROOT / "node_modules", tree / "node_modules")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", built, tree, cwd=tree)
    (made,) = built.glob("*.whl")
    return made


def pythons() -> dict[str, str]:
    """Return the path of an interpreter for each version in `VERSIONS` that is in PATH or in pyenv."""
    found = {}
    for version in VERSIONS:
        managed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        for candidate in (shutil.which(f"python{version}"), *map(str, managed)):
            if candidate and _works(candidate, version):
                found[version] = candidate
                break
    return found


def _works(candidate: str, version: str) -> bool:
    program = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([candidate, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version
