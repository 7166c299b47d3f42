"""Packages that a plain installation does not have.

The tests check which modules can import them, the extras in pyproject.toml, and the error messages.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.house.packages import PACKAGES as ZABKA_PACKAGES
from tests.house.packages import ROOT, files_of, name_of, nodes_of
from zabka.cli.main import MISSING
from zabka.cli.verbs import VERBS, WITHOUT_TYPER
from zabka.ensemble.runtime.extras import PACKAGES, Lacking, install_command, is_installed, require

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

MAY_IMPORT = {
    "journal": {"msgspec"},
    "ensemble": {"msgspec", "structlog", "cramjam"},
    "kafka": {"msgspec", "kio", "cramjam", "crc32c", "backports"},
    "controller": {"kio"},
    "broker_sim": {"crc32c", "h11", "msgspec", "structlog", "kio"},
    "simulation": {"msgspec", "structlog", "kio"},
    "pipeline": {"msgspec"},
    "agent": {"msgspec", "h11", "starlette", "uvicorn"},
    "api": {
        "msgspec",
        "structlog",
        "kio",
        "fastapi",
        "starlette",
        "uvicorn",
        "pydantic",
        "pydantic_core",
    },
    "compose": {"msgspec", "structlog", "starlette", "uvicorn"},
    "testing": {"hypothesis", "msgspec", "pytest"},
    "cli": {"msgspec", "kio"},
}
"""Third-party packages that each package of this project can import."""
OF_EXTRAS = {
    "compose/progress.py": "cli",
    "compose/certificates.py": "tls",
    "zabka/cli/": "cli",
    "api/routes/stream.py": "dashboard",
    "api/metrics.py": "dashboard",
    "api/analytics/tables.py": "spark",
    "api/analytics/audits.py": "spark",
    "zabka/pipeline/": "spark",
    "zabka/cli/pipeline.py": "spark",
    "ensemble/server/config/": "tls",
    "broker_sim/password_encoder.py": "tls",
    "broker_sim/sasl/signed_tokens.py": "oauth",
    "ensemble/client/kazoo.py": "kazoo",
    "ensemble/client/shim/": "kazoo",
    "zabka/testing/kazoo_harness.py": "kazoo",
    "ensemble/runtime/node_process.py": "uvloop",
}
"""Modules and folders that can import the packages of an extra, keyed by path."""
DEVELOPMENT = {"compose/locks.py": {"packaging"}, "scripts/setup/page_libraries.py": {"setuptools"}}
"""Programs that run only in the source tree, and the packages from the lock file that they import."""
ALWAYS_THERE = {"starlette", "pydantic_core"}
"""Packages that are always installed because another package requires them.

FastAPI requires Starlette, and pydantic requires pydantic_core.
"""


BROUGHT_ALONG = {"pandas": "numpy", "pyspark": "py4j", "typer": "click"}
"""Packages that are always installed with a package of an extra.

pandas requires numpy, PySpark calls Java through py4j, and Typer requires Click until it has its own copy.
"""
NEW_IN_THE_LIBRARY = {"compression"}
"""Packages in the standard library of Python 3.14 that the oldest supported Python does not have."""


def imported(path: Path) -> set[str]:
    """Return all top-level packages that a module imports, also in functions."""
    found = set()
    for node in nodes_of(name_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - NEW_IN_THE_LIBRARY - {"zabka", "scripts", "tests"}


def excused(name: str) -> set[str]:
    of_extras = {p for place, extra in OF_EXTRAS.items() if name.startswith(place) for p in PACKAGES[extra]}
    return DEVELOPMENT.get(name, set()) | of_extras | {BROUGHT_ALONG[p] for p in of_extras if p in BROUGHT_ALONG}


@pytest.mark.parametrize("own_package", ZABKA_PACKAGES)
def test_package_imports_only_allowed_packages(own_package: str) -> None:
    wrong = {
        path.relative_to(ROOT).as_posix(): unknown
        for path in files_of(own_package)
        if (unknown := imported(path) - MAY_IMPORT[own_package] - excused(path.relative_to(ROOT).as_posix()))
    }
    assert wrong == {}


def test_every_allowed_import_is_used() -> None:
    for own_package, allowed in MAY_IMPORT.items():
        assert allowed <= {package for path in files_of(own_package) for package in imported(path)}, own_package
    for place, extra in OF_EXTRAS.items():
        below = [
            path
            for own_package in ZABKA_PACKAGES
            for path in files_of(own_package)
            if path.relative_to(ROOT).as_posix().startswith(place)
        ]
        assert {package for path in below for package in imported(path)} & set(PACKAGES[extra]), place


def packages_of(requirements: list[str]) -> set[str]:
    """Return the top-level packages that these requirements provide in the current environment."""
    names = {re.sub(r"[-_.]+", "-", Requirement(line).name).lower() for line in requirements}
    found = {
        package
        for package, distributions in packages_distributions().items()
        if {re.sub(r"[-_.]+", "-", name).lower() for name in distributions} & names
    }
    return {package for package in found if not package.startswith("_")}


def test_extras_in_pyproject_equal_the_table_of_extra_packages() -> None:
    extras = dict(PROJECT["optional-dependencies"])
    assert extras.pop("all") == [f"zabka[{','.join(sorted(extras))}]"]
    assert set(extras) == set(PACKAGES)
    for extra, lines in extras.items():
        assert set(PACKAGES[extra]) <= packages_of(lines), extra


def test_project_requires_exactly_what_its_packages_import() -> None:
    imported_packages = set().union(*MAY_IMPORT.values()) - ALWAYS_THERE - {"hypothesis", "pytest"}
    named = packages_of(PROJECT["dependencies"])
    assert imported_packages <= named | {"backports"}
    used = [line for line in PROJECT["dependencies"] if not packages_of([line]) & imported_packages]
    assert used == [], "required, but not imported"


HIDDEN = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
"""Program that makes imports of some packages fail, as if they were not installed."""


def run_without(extra: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", HIDDEN.format(hidden=list(PACKAGES[extra])) + code],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip


def test_package_hidden_by_the_test_cannot_be_imported() -> None:
    for extra in PACKAGES:
        done = run_without(
            extra, f"from zabka.ensemble.runtime.extras import is_installed; print(is_installed({extra!r}))"
        )
        assert done.stdout == "False\n", done.stderr


def test_message_for_a_missing_extra_has_the_install_command() -> None:
    assert is_installed("spark")
    require("spark", "the tables are")
    assert str(Lacking("spark", "the tables are")) == "the tables are not installed: pip install 'zabka[spark]'"


@pytest.mark.parametrize(
    ("extra", "code", "message"),
    [
        (
            "spark",
            "from zabka.cli import pipeline; sys.exit(pipeline.main(['tables']))",
            "the Spark jobs are not installed",
        ),
        ("kazoo", "import zabka.ensemble.client.kazoo", "kazoo, whose recipes run on this client, is not installed"),
    ],
)
def test_missing_module_error_contains_the_install_command(extra: str, code: str, message: str) -> None:
    done = run_without(extra, code)
    assert done.returncode == 1
    assert f"{message}: {install_command(extra)}" in done.stderr


def run_zabka_without(extra: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_without(extra, f"sys.argv = {['zabka', *arguments]!r}; from zabka.cli.main import main; main()")


@pytest.mark.parametrize("verb", sorted(WITHOUT_TYPER))
def test_command_without_typer_runs_without_the_cli_extra(verb: str) -> None:
    done = run_zabka_without("cli", verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: zabka {verb} ")


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        *(([verb], f"the command zabka {verb} is") for verb in VERBS if verb not in WITHOUT_TYPER),
        ([], "the command line is"),
        (["--help"], "the command line is"),
        (["no-such-verb"], "the command line is"),
    ],
)
def test_error_without_the_cli_extra_has_the_install_command(arguments: list[str], missing: str) -> None:
    done = run_zabka_without("cli", *arguments)
    assert (done.returncode, done.stdout) == (MISSING, "")
    assert done.stderr == f"zabka: {missing} not installed: pip install 'zabka[cli]'\n"


def test_key_store_error_without_extra_has_the_install_command() -> None:
    code = """
import ssl
from pathlib import Path
from zabka.ensemble.server.config.tls_stores import BadStore, Store, load_key
try:
    load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), Store(Path("k.pem"), "PEM", ""))
except BadStore as bad:
    print(bad)
"""
    assert run_without("tls", code).stdout.endswith(f"not installed: {install_command('tls')}\n")


def test_signed_token_error_without_extra_has_the_install_command() -> None:
    code = """
import asyncio
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.oauth_keys import SignedTokenKeys
from zabka.broker_sim.sasl.token_verifiers import token_verifier
keys = SignedTokenKeys("file:/keys", frozenset(), "", 30, "scope", "sub", 1, 0, 0, {})
try:
    asyncio.run(token_verifier(keys, "CLIENTS", None, print))
except ConfigError as wrong:
    print(wrong)
"""
    expected = (
        f"listener CLIENTS: the package that verifies signed tokens is not installed: {install_command('oauth')}\n"
    )
    assert run_without("oauth", code).stdout == expected


@pytest.mark.parametrize(
    "module", ["zabka.cli.main", "zabka.testing.pytest_plugin", "zabka.compose.node",
    "zabka.ensemble.server.process.peer_process",
     "zabka.broker_sim.broker_process", "zabka.compose.agent", "zabka.compose.up", "zabka.api.main",
     "zabka.testing.live.cluster", "zabka.testing.worlds.cluster"],
)  # fmt: skip
def test_processes_run_without_any_optional_package(module: str) -> None:
    hidden = [package for packages in PACKAGES.values() for package in packages]
    done = subprocess.run(
        [sys.executable, "-P", "-c", HIDDEN.format(hidden=hidden) + f"import {module}"],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
