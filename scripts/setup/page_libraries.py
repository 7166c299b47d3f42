"""The build of the wheel. It contains the page's JavaScript libraries, so that users of the wheel need no npm.

No third-party code is in the repository: npm installs the libraries into node_modules as package-lock.json specifies,
and the build copies them from there.  `pyproject.toml` configures setuptools to use `BuildWithPage` and
`SourceWithPage`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import SetupError

LIBRARIES = {
    "lit-html": ("LICENSE", "package.json", "*.js", "directives/*.js"),
}
"""For each library, the files that the page may load, and the licence."""
NODE_MODULES = Path("node_modules")
CARRIED = Path("zabka") / "api" / "page_libraries"
"""Path of the libraries in an installed package and in a source distribution."""
_HOW = "the page's libraries ({missing}) are not in node_modules; run this first: {command}"
_WITH_NPM, _WITHOUT_NPM = "npm ci --omit=dev --ignore-scripts", "make setup"


class LibrariesMissing(SetupError):
    """npm has not installed the page's libraries; the message states what to do."""


def library_files(source: Path) -> list[Path]:
    """Return the library files to copy, as paths below `source` (node_modules).  Raises LibrariesMissing."""
    missing = [name for name in LIBRARIES if not (source / name / "LICENSE").is_file()]
    if missing:
        command = _WITH_NPM if shutil.which("npm") else _WITHOUT_NPM
        raise LibrariesMissing(_HOW.format(missing=", ".join(missing), command=command))
    return [
        path.relative_to(source)
        for name, patterns in LIBRARIES.items()
        for pattern in patterns
        for path in sorted((source / name).glob(pattern))
    ]


def carry_libraries(target: Path) -> list[Path]:
    """Copy the libraries below `target`; return the written files.  Raises LibrariesMissing.

    The libraries come from a source distribution or from node_modules.
    """
    source = CARRIED if (CARRIED / "lit-html").is_dir() else NODE_MODULES
    written = []
    for name in library_files(source):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
        written.append(target / name)
    return written


class BuildWithPage(build_py):
    """setuptools' package build that includes the page's libraries."""

    def run(self) -> None:
        """Build the packages and copy the libraries.

        An editable installation uses the libraries in node_modules instead.
        """
        super().run()
        if not self.editable_mode:
            self._carried = [str(path) for path in carry_libraries(Path(self.build_lib) / CARRIED)]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Return every file that the build wrote."""
        return [*super().get_outputs(include_bytecode), *getattr(self, "_carried", [])]


class SourceWithPage(sdist):
    """setuptools' source distribution that includes the page's libraries, so that a build from it needs no npm."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Create the directory tree of files to pack, including the libraries."""
        super().make_release_tree(base_dir, files)
        carry_libraries(Path(base_dir) / CARRIED)
