"""A journal's rows, as every table takes them, with what several tables need of them made once.

What is made once is written as Parquet and read again: so it takes no memory while it waits, whichever machine made it
may die, and the plans that stand on it begin there.  (Kept in Spark's cache, each table's plan still held the plans of
all before it, and planning took longer than the work.)
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame


class Journal:
    """The rows of a journal (the columns of `zabka-journal`), and frames made of them.

    They are staged in a directory that every machine of the Spark sees: `stage`, or one of this machine's for temporary
    files, which goes with the process.
    """

    def __init__(self, source: DataFrame, stage: Path | None = None) -> None:
        if stage is None:
            stage = Path(tempfile.mkdtemp(prefix="zabka-"))
            # Frames made of it may outlive this object.
            atexit.register(shutil.rmtree, stage, ignore_errors=True)
        self.stage = stage
        self._source = source
        self._made: dict[str, DataFrame] = {}

    @property
    def rows(self) -> DataFrame:
        """All rows: the journals themselves are read when they are first asked for, and not again."""
        return self.once("rows", lambda: self._source)

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """The frame of that name: made when it is first asked for."""
        if name not in self._made:
            frame = make()
            place = str(self.stage / name)
            frame.write.parquet(place)
            self._made[name] = frame.sparkSession.read.schema(frame.schema).parquet(place)
        return self._made[name]
