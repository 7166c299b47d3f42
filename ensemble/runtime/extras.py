"""Optional packages, keyed by the extra that installs them, and the message for a missing extra.

An extra's packages are imported only in the modules that need them, and only when they are needed.
`tests/house/test_extras.py` compares this table with pyproject.toml, and checks which module may import which
package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "cli": ("typer", "rich"),
    "dashboard": ("sse_starlette", "prometheus_client"),
    "spark": ("pyspark", "pyarrow", "pandas", "numpy", "scipy"),
    "tls": ("cryptography", "trustme"),
    "oauth": ("jwt",),
    "kazoo": ("kazoo",),
    "uvloop": ("uvloop",),
}
"""Top-level packages that each extra installs and a plain installation does not."""


class Lacking(ImportError):
    """Raised for a missing extra; the message gives the feature that needs it and the command that installs it."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(sentence(extra, what))
        self.extra = extra


def is_installed(extra: str, find: Callable[[str], object | None] = find_spec) -> bool:
    """Return whether every package of the extra can be imported. Raises KeyError if there is no such extra."""
    return all(_found(package, find) for package in PACKAGES[extra])


def _found(package: str, find: Callable[[str], object | None]) -> bool:
    try:
        return find(package) is not None
    except (ImportError, ValueError):
        # A module in sys.modules can be None or have no spec if other code blocked its import. It then counts as
        # missing.
        return False


def sentence(extra: str, what: str) -> str:
    """Return the message for a missing extra; `what` is the subject of the sentence, such as "the Spark tables are"."""
    return f"{what} not installed: {install_command(extra)}"


def install_command(extra: str) -> str:
    """Return the command that installs the extra."""
    return f"pip install 'zabka[{extra}]'"


def require(extra: str, what: str) -> None:
    """Raise Lacking if the extra is not installed.

    `what` is the subject of the exception's message, as in `sentence`.
    """
    if not is_installed(extra):
        raise Lacking(extra, what)
