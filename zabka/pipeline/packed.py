"""Packs a Python interpreter and everything that tasks need in one archive, for executors with nothing installed.

The content is what a short program loads in a separate process: the packages of zabka and their dependencies, Spark's
Python side without its jars, the standard library, and this interpreter. An executor needs the same kind of machine
(processor, C library) as the driver, a shell, and Java for Spark itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import distribution, packages_distributions
from io import BytesIO
from pathlib import Path

NAME = "environment"
"""Directory into which executors unpack the archive."""
PYTHON = f"./{NAME}/bin/python3"
RUNS = """
import pyspark.daemon, pyspark.worker
from zabka.pipeline.campaign.play import Run, play
play(Run(0, 0, "calm", ("faults.ms=100", "drawn.topics=false")))
play(Run(0, 9, "chaos", ("faults.ms=100",)))
"""
"""Program that loads everything that a campaign's run needs. It executes two runs, so that partial reads are covered
too.
"""
FUTURES = """
import pyspark.daemon, pyspark.worker
from zabka.cli.futures import History, play_future
from zabka.simulation.fork import Change
from zabka.simulation.settings import world_settings
settings = world_settings(["faults.ms=100", "drawn.topics=false"])
play_future(History(0, "calm", settings, ()), (Change(0, future=1),))
"""
"""Program that loads everything that a future of a run needs."""
JOURNALS = """
import pkgutil
import pyspark.daemon, pyspark.worker, pyspark.sql.worker
import pandas, pyarrow.parquet
import zabka.pipeline.lake.writer, zabka.pipeline.places, zabka.pipeline.source, zabka.pipeline.topic.source
for found in pkgutil.iter_modules(pyspark.sql.worker.__path__, "pyspark.sql.worker."):
    __import__(found.name)
"""
"""Program that loads everything that the sources of journals and the writer of the lake need."""
AUDITS = """
import pyspark.daemon, pyspark.worker
import zabka.pipeline.audits.jobs
"""
"""Program that loads everything that an audit needs."""
_PRINT = """
import json, sys
found = {}
for top in {name.partition(".")[0]: None for name in list(sys.modules)}:
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None)
    homes = list(getattr(module, "__path__", ()))
    # A namespace package has directories and no file of its own.
    if file or homes:
        found[top] = homes if file is None or file.endswith("__init__.py") else [file]
print(json.dumps(found))
"""
_WRAPPER = """#!/bin/sh
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
export PYTHONHOME="$here/python" PYTHONPATH="$here/site" PYTHONNOUSERSITE=1
export LD_LIBRARY_PATH="$here/python/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/python/bin/python3" "$@"
"""
_LEFT_OUT = {
    "__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "site-packages", "dist-packages",
    "jars", "examples", "licenses", "lib2to3", "pydoc_data", "web",
}  # fmt: skip


class NotPacked(Exception):
    """The archive could not be created. The message states why."""


def packed(directory: Path, needs: str) -> Path:
    """Create an archive with everything that a program (RUNS, JOURNALS, AUDITS) loads, and return its path.

    An existing archive with the same contents is used again. Raises NotPacked.
    """
    members = dict(_members(needs))
    digest = sha256()
    for name, path in sorted(members.items()):
        found = path.stat()
        digest.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    archive = directory / f"environment-{digest.hexdigest()[:16]}.tar.gz"
    if not archive.exists():
        directory.mkdir(parents=True, exist_ok=True)
        aside = archive.with_suffix(".new")
        with tarfile.open(aside, "w:gz", compresslevel=1) as tar:
            _add_wrapper(tar)
            for name, path in sorted(members.items()):
                tar.add(path.resolve(), name, recursive=False)
        aside.replace(archive)
    return archive


def _add_wrapper(tar: tarfile.TarFile) -> None:
    info = tarfile.TarInfo("bin/python3")
    info.mode = 0o755
    info.size = len(_WRAPPER)
    tar.addfile(info, BytesIO(_WRAPPER.encode()))


def _members(needs: str) -> Iterator[tuple[str, Path]]:
    stdlib = Path(sysconfig.get_path("stdlib"))
    loaded = _loaded(needs)
    for top, places in loaded.items():
        for path in map(Path, places):
            if path.is_relative_to(stdlib) and not _is_installed(path):
                continue
            yield from _tree(path, f"site/{top}") if path.is_dir() else [(f"site/{path.name}", path)]
            libraries = path.with_name(f"{top}.libs")
            if libraries.is_dir():
                yield from _tree(libraries, f"site/{libraries.name}")
    yield from _descriptions(loaded)
    yield from _tree(stdlib, f"python/lib/{stdlib.name}")
    yield "python/bin/python3", Path(sys.executable).resolve()
    library = Path(str(sysconfig.get_config_var("LIBDIR"))) / str(sysconfig.get_config_var("INSTSONAME") or "")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and library.is_file():
        yield f"python/lib/{library.name}", library


def _descriptions(loaded: dict[str, list[str]]) -> Iterator[tuple[str, Path]]:
    """Yield the metadata files of each installed package. Some packages read their version from these files when
    imported.
    """
    of_packages = packages_distributions()
    for name in sorted({name for top in loaded for name in of_packages.get(top, ())}):
        for file in distribution(name).files or ():
            path = Path(str(file.locate()))
            if path.parent.name.endswith(".dist-info") and path.name in ("METADATA", "RECORD") and path.is_file():
                yield f"site/{path.parent.name}/{path.name}", path


def _is_installed(path: Path) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


def _loaded(needs: str) -> dict[str, list[str]]:
    done = subprocess.run([sys.executable, "-c", needs + _PRINT], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotPacked(f"what executors need could not be loaded: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _tree(root: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(root.iterdir()):
        if path.name in _LEFT_OUT or path.name.endswith((".pyc", ".a")) or path.name.startswith("config-"):
            continue
        if path.is_dir():
            yield from _tree(path, f"{name}/{path.name}")
        elif path.is_file():
            yield f"{name}/{path.name}", path
