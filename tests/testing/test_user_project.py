"""A user's project with packages named `api`, `tools`, `testing`, … works with the fixtures and its own packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.built_wheel import build_wheel, pythons
from tests.testing.user_project import PACKAGES, TESTS_COUNT, write_project

RUNS = {"pytest": ["pytest"], "python -m pytest": [sys.executable, "-m", "pytest"], "-n 2": ["pytest", "-n", "2"]}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize(
    ("run", "src"),
    [("pytest", True), ("python -m pytest", False), pytest.param("-n 2", True, marks=pytest.mark.long)],
)
def test_user_project_with_module_names_of_zabka_runs(run: str, src: bool, tmp_path: Path) -> None:
    where = write_project(tmp_path, src=src)
    program, *arguments = RUNS[run]
    if program == "pytest":
        program = str(Path(sys.executable).with_name("pytest"))
    done = subprocess.run(
        [program, *arguments, "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(where)}, capture_output=True, text=True, timeout=150,
        check=False,
    )  # fmt: skip
    assert f"{TESTS_COUNT} passed" in done.stdout, done.stdout + done.stderr


def test_zabka_folders_are_not_importable_as_top_level_modules(tmp_path: Path) -> None:
    """With zabka installed, the folders that its package links to cannot be imported as top-level modules.

    This would be possible only if the repository's root were in `sys.path`.
    """
    names = ("api", "broker_sim", "compose", "controller", "ensemble", "journal", "pipeline", "simulation", "testing")
    program = f"from importlib.util import find_spec; print([name for name in {names} if find_spec(name)])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_zabka_and_a_project_with_equal_names_do_not_mix_files(version: str, wheel: Path, tmp_path: Path) -> None:
    """zabka and a project with packages of the same names do not overwrite each other's files.

    The test installs zabka's wheel and the project in one environment, runs all tests, and uninstalls zabka.
    """
    python_of = pythons()
    if version not in python_of:
        pytest.skip(f"no Python {version} on this machine")
    subprocess.run([python_of[version], "-m", "venv", tmp_path / "env"], check=True)
    python = str(tmp_path / "env" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, str(wheel), "pytest", "pytest-xdist"], check=True)
    for src in (False, True):
        project = tmp_path / ("src-layout" if src else "flat")
        where = write_project(project, src=src, live=True)
        subprocess.run([*install, *(["-e"] if src else []), str(project)], check=True)
        for run in ([python, "-m", "pytest"], [str(Path(python).with_name("pytest"))], [python, "-m", "pytest", "-n2"]):
            done = subprocess.run([*run, "-q"], cwd=project, capture_output=True, text=True, timeout=300, check=False)
            assert f"{TESTS_COUNT + 1} passed" in done.stdout, done.stdout + done.stderr
        assert all((where / name / "main.py").is_file() for name in PACKAGES)
        subprocess.run([*install[:3], "uninstall", "--quiet", "--yes", "ledger"], check=True)
    subprocess.run([*install, str(tmp_path / "flat")], check=True)
    subprocess.run([*install[:3], "uninstall", "--quiet", "--yes", "zabka"], check=True)
    packages = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
    )  # fmt: skip
    assert (packages / "api" / "main.py").read_text() == 'OWNER = "user"\n'
    assert not (packages / "zabka").exists()
    shutil.rmtree(tmp_path / "env")
