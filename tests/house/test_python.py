"""Which Python the virtual environment is built with (scripts/setup/choose_python.sh)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def interpreter(directory: Path, name: str, *, profiles: bool = True, environments: bool = True) -> None:
    """This Python under another name, which says of itself what a test needs."""
    directory.mkdir(exist_ok=True)
    script = directory / name
    script.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        f"*compiled_with_profiles.py) exit {int(not profiles)} ;;\n"
        f"*ensurepip*) exit {int(not environments)} ;;\n"
        f'esac\nexec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)


def chosen(tmp_path: Path) -> str:
    """What is chosen where PATH begins with `path`, and the distribution has its programs in `distribution`."""
    told = subprocess.run(
        ["sh", ROOT / "scripts/setup/choose_python.sh", tmp_path / "distribution"],
        env={**os.environ, "PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert told.stderr == ""
    return told.stdout.strip()


def test_a_python_compiled_with_profiles_is_taken_from_path(tmp_path: Path) -> None:
    interpreter(tmp_path / "path", "python3")
    interpreter(tmp_path / "distribution", f"python{VERSION}")
    assert chosen(tmp_path) == "python3"


def test_the_distributions_python_of_the_same_version_is_taken_before_one_without_profiles(tmp_path: Path) -> None:
    interpreter(tmp_path / "path", "python3", profiles=False)
    interpreter(tmp_path / "distribution", "python3.0")
    assert chosen(tmp_path) == "python3"
    interpreter(tmp_path / "distribution", f"python{VERSION}")
    assert chosen(tmp_path) == str(tmp_path / "distribution" / f"python{VERSION}")


def test_a_distributions_python_that_cannot_make_environments_is_not_taken(tmp_path: Path) -> None:
    interpreter(tmp_path / "path", "python3", profiles=False)
    interpreter(tmp_path / "distribution", f"python{VERSION}", environments=False)
    assert chosen(tmp_path) == "python3"


def test_a_distributions_python_without_profiles_is_no_better(tmp_path: Path) -> None:
    interpreter(tmp_path / "path", "python3", profiles=False)
    interpreter(tmp_path / "distribution", f"python{VERSION}", profiles=False)
    assert chosen(tmp_path) == "python3"
