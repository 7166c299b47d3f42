"""The choice of the Python for the virtual environment (scripts/setup/choose_python.sh)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def interpreter(directory: Path, name: str, *, profiles: bool = True, environments: bool = True) -> None:
    """Create a fake interpreter with that name, with or without the checked features.

    All other commands are executed by the Python that runs this test.
    """
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
    """Run the script and return the Python that it chooses.

    The folder `path` is first in PATH, and the folder `distribution` contains the programs of the Linux distribution.
    """
    done = subprocess.run(
        ["sh", ROOT / "scripts/setup/choose_python.sh", tmp_path / "distribution"],
        env={**os.environ, "PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.strip()


def test_optimised_python_on_path_is_preferred_to_the_distros(tmp_path: Path) -> None:
    interpreter(tmp_path / "path", "python3")
    interpreter(tmp_path / "distribution", f"python{VERSION}")
    assert chosen(tmp_path) == "python3"


def test_optimised_distro_python_is_preferred_to_a_plain_one(tmp_path: Path) -> None:
    interpreter(tmp_path / "path", "python3", profiles=False)
    interpreter(tmp_path / "distribution", "python3.0")
    assert chosen(tmp_path) == "python3"
    interpreter(tmp_path / "distribution", f"python{VERSION}")
    assert chosen(tmp_path) == str(tmp_path / "distribution" / f"python{VERSION}")


def test_distro_python_without_venv_support_is_not_chosen(tmp_path: Path) -> None:
    interpreter(tmp_path / "path", "python3", profiles=False)
    interpreter(tmp_path / "distribution", f"python{VERSION}", environments=False)
    assert chosen(tmp_path) == "python3"


def test_python_built_without_pgo_is_not_preferred(tmp_path: Path) -> None:
    interpreter(tmp_path / "path", "python3", profiles=False)
    interpreter(tmp_path / "distribution", f"python{VERSION}", profiles=False)
    assert chosen(tmp_path) == "python3"
