"""Spark masters: local ones, and remote ones whose executors have nothing installed and receive an archive.

For Spark, the driver and the executors start Python by the same name: a path in the working directory of a process.
Executors unpack the archive at that path; on the driver, a script with that name is in the directory of the Java
process.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from zabka.pipeline.packed import NAME, PYTHON, packed

_LOCAL = re.compile(r"local(\[(?P<threads>[^,\]]+)(,\s*\d+)?\])?")
TRIES = 4
"""Number of attempts that Spark makes for a task on a cluster. With a local master, its default is one attempt."""
_OF_SPARK = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP")


def tried_again(master: str) -> str:
    """Return the Spark master; a local one is changed so that it attempts a task as often as a cluster does."""
    local = _LOCAL.fullmatch(master)
    return master if local is None else f"local[{local['threads'] or '1'},{TRIES}]"


def is_local(master: str) -> bool:
    """Return whether the master's tasks run on this machine, like the driver."""
    return _LOCAL.fullmatch(master) is not None


@contextmanager
def interpreters(
    builder: SparkSession.Builder, master: str, directory: Path, needs: str
) -> Iterator[SparkSession.Builder]:
    """Yield a builder of sessions whose tasks use the right Python interpreter.

    Create the session inside the block. If executors are on other machines, the archive for them is stored in
    `directory`. Raises NotPacked.
    """
    kept = {name: os.environ.get(name) for name in _OF_SPARK}
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    here = Path.cwd()
    try:
        if is_local(master):
            os.environ["PYSPARK_PYTHON"] = sys.executable
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            yield builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
            return
        os.environ["PYSPARK_PYTHON"] = PYTHON
        archive = packed(directory, needs)
        own_directory = Path(tempfile.mkdtemp(prefix="zabka-driver-"))
        # Java uses this directory until the process exits, so remove it only then.
        atexit.register(shutil.rmtree, own_directory, ignore_errors=True)
        script = own_directory / PYTHON
        script.parent.mkdir(parents=True)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        script.chmod(0o755)
        os.chdir(own_directory)
        yield builder.config("spark.archives", f"{archive}#{NAME}")
    finally:
        os.chdir(here)
        for name, value in kept.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
