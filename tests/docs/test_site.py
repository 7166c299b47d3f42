"""The documentation site's generator: pinned by hash, and independent of the project's dependencies."""

from __future__ import annotations

import json
import re
import tomllib

from tests.docs.documents import DOCS, ROOT

LOCK = (DOCS / "site/requirements.lock").read_text()


def test_every_site_generator_package_has_a_hash() -> None:
    pins = [line for line in LOCK.splitlines() if "==" in line]
    assert pins
    assert all(line.rstrip().endswith("\\") for line in pins), "a pinned package without hashes"


def test_lock_file_contains_the_group_of_site_dependencies() -> None:
    group = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["docs"]
    required = {re.split(r"[<>=]", requirement)[0] for requirement in group}
    pinned = set(re.findall(r"^([\w.-]+)==", LOCK, re.MULTILINE))
    assert required - pinned == set()


def test_running_zabka_does_not_install_the_site_generator() -> None:
    assert re.findall(r"^sphinx==", (ROOT / "requirements.lock").read_text(), re.MULTILINE) == []


def test_diagram_library_is_pinned_without_a_url() -> None:
    packages = json.loads((DOCS / "site/package-lock.json").read_text())["packages"]
    (library,) = (found for name, found in packages.items() if name)
    assert library["integrity"] and "resolved" not in library
