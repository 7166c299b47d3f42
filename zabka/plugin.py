"""What pytest loads by the entry point: looks whether zabka's packages are its own, then loads the fixtures."""

from __future__ import annotations

import pytest

from zabka.shadowed import same_names, shadowed

if sentence := shadowed():
    raise pytest.UsageError(sentence)

pytest_plugins = ("zabka.testing.pytest_plugin",)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Where the project's own packages have names of zabka's: one of both is not found."""
    names = same_names(config.rootpath)
    if not names:
        return None
    return f"zabka: this project has {', '.join(map(repr, names))}, and so has zabka: one hides the other"
