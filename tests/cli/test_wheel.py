"""The wheel on a machine that has Python, but neither the source tree nor npm."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.built_wheel import ROOT, build_wheel, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

README_SIZE = re.compile(r"plain\s+installation\s+takes\s+(\d+)\s+MB")
"""Pattern of the README's sentence with the size of a plain installation."""
SIZE = """
import importlib.metadata, pathlib
files = (pathlib.Path(d.locate_file(f)) for d in importlib.metadata.distributions()
         if d.metadata["Name"] not in ("pip", "setuptools") for f in d.files or [])
print(sum(file.stat().st_size for file in files if file.is_file()))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


class Installed(NamedTuple):
    """Virtual environment in which only zabka's wheel is installed."""

    directory: Path
    plain_bytes: int

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for the installed program.

        They do not include those of this process, so that it finds neither the source tree nor npm.
        """
        return {"PATH": f"{self.directory / 'bin'}:/usr/bin:/bin", "HOME": str(self.directory)}

    def zabka(self, *arguments: object) -> str:
        return run(self.directory / "bin" / "zabka", *arguments, cwd=self.directory, env=self.environment)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    directory = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", directory, cwd=directory)
    python = directory / "bin" / "python"
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*install, wheel, cwd=directory)
    plain_bytes = int(run(python, "-c", SIZE, cwd=directory))
    run(*install, f"{wheel}[dashboard]", "pytest", cwd=directory)
    return Installed(directory, plain_bytes)


def test_wheel_contains_one_top_level_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"zabka"}


def test_installation_without_extras_has_the_size_in_the_readme(installed: Installed) -> None:
    (stated_mb,) = README_SIZE.findall((ROOT / "README.md").read_text())
    assert round(installed.plain_bytes / 1_000_000) == int(stated_mb)


@pytest.fixture
def cluster(installed: Installed, tmp_path: Path) -> Iterator[dict[str, Any]]:
    data = tmp_path / "data"
    installed.zabka("up", "--detach", "--data", data, "--port", 0, "--zk-port", 0, "--kafka-port", 0)
    try:
        yield json.loads(installed.zabka("status", "--json", "--data", data))
    finally:
        installed.zabka("down", "--data", data)


def test_installed_wheel_starts_a_cluster_with_its_web_page(cluster: dict[str, Any]) -> None:
    assert {process["process"] for process in cluster["processes"]} == {"running"}
    with httpx.Client(base_url=cluster["url"], trust_env=False) as client:
        assert "/web/main.js" in client.get("/").text
        for address in ("/web/main.js", "/lib/lit-html/lit-html.js", "/lib/lit-html/directives/repeat.js",
                        "/web/sentences.json", "/metrics"):  # fmt: skip
            assert client.get(address).status_code == 200, address


def test_user_test_runs_with_the_fixtures_of_the_wheel(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        """def test_a_cluster(zabka_cluster):
    zabka_cluster.topics.create("orders")
    zabka_cluster.produce("orders", ["a"])
    assert zabka_cluster.consume("orders") == ["a"]


def test_a_world(zabka_world):
    zabka_world.topics.create("orders")
    assert zabka_world.topics.names() == ["orders"]
"""
    )
    python = installed.directory / "bin" / "python"
    output = run(python, "-P", "-m", "pytest", "-q", tmp_path, cwd=tmp_path, env=installed.environment)
    assert "2 passed" in output
