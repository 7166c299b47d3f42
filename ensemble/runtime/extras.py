"""What `pip install zabka` leaves out, by the name of the extra that brings it, and the sentence for who lacks it.

An extra's packages are imported only in the modules that need them, and only once they are asked for.
`tests/house/test_extras.py` holds this table against pyproject.toml, and which module may import what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "cli": ("typer", "rich"),
    "dashboard": ("sse_starlette", "prometheus_client"),
    "spark": ("pyspark", "pyarrow", "pandas", "numpy"),
    "tls": ("cryptography",),
    "kazoo": ("kazoo",),
    "uvloop": ("uvloop",),
}
"""The top-level packages that each extra brings and a plain installation goes without."""


class Lacking(ImportError):
    """An extra is not installed; the message says what wants it, and the command that installs it."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(sentence(extra, what))
        self.extra = extra


def is_installed(extra: str, find: Callable[[str], object | None] = find_spec) -> bool:
    """Can every package of the extra be imported?  Raises KeyError for a name that is no extra's."""
    return all(_found(package, find) for package in PACKAGES[extra])


def _found(package: str, find: Callable[[str], object | None]) -> bool:
    try:
        return find(package) is not None
    except (ImportError, ValueError):
        # What sys.modules holds without a spec: None, where somebody forbade the import.
        return False


def sentence(extra: str, what: str) -> str:
    """What to do where the extra is missing: `what` says, as the subject, who wants it."""
    return f"{what} not installed: {install_command(extra)}"


def install_command(extra: str) -> str:
    """The command that installs it."""
    return f"pip install 'zabka[{extra}]'"


def require(extra: str, what: str) -> None:
    """Raises Lacking where the extra is not installed; `what` is such as "the Spark tables are"."""
    if not is_installed(extra):
        raise Lacking(extra, what)
