"""Places of journals: a local directory, a topic, or any file system that Hadoop's client supports."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from zabka.pipeline.ranges import SCHEMA, Share, batches, read_file, read_share
from zabka.pipeline.runs import is_journal, placed
from zabka.pipeline.source import shares_of
from zabka.pipeline.topic.connection import SCHEME, TopicPlace, parse_place

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?P<rest>.*)")
"""Matches a URI, also after `Path` has removed one of its slashes."""
_AUTHORITY = re.compile(r"(?<=:)//[^/]+(?=/)")


class Uri(NamedTuple):
    """A directory, or one journal, in a file system that Hadoop's client supports: hdfs, s3a, file and others.

    `rest` begins with a slash if the URI has no authority (`hdfs:///user`). Hadoop's client then uses its default
    authority.
    """

    scheme: str
    rest: str

    def __str__(self) -> str:
        return f"{self.scheme}://{'/' if self.scheme == 'file' else ''}{self.rest}"


Place = Path | TopicPlace | Uri


def place_of(text: str) -> Place:
    """Parse a place of journals: a topic, another URI, or a path.  Raises ValueError with the reason."""
    if text.startswith(SCHEME):
        return parse_place(text)
    found = _URI.fullmatch(text)
    if found is None:
        return Path(text).resolve()
    rest = found["rest"].lstrip("/") if found["scheme"] == "file" else found["rest"]
    return Uri(found["scheme"], rest.rstrip("/") or rest[:1])


def batch(spark: SparkSession, place: Place, types: str) -> DataFrame:
    """Return the rows of those event types from every journal at this place."""
    if isinstance(place, Path):
        return of_shares(spark, shares_of(place.resolve(), frozenset(types.split(","))))
    if isinstance(place, TopicPlace):
        return spark.read.format("zabka-topic").options(**_options(place), types=types).load()
    return _of_uri(spark, place, types)


def stream(spark: SparkSession, place: Path | TopicPlace, hold: Path) -> DataFrame:
    """Return the rows as a stream that follows growing journals. Files are linked into `hold` until they are read."""
    if isinstance(place, Path):
        return spark.readStream.format("zabka-journal").option("hold", str(hold)).load(str(place))
    return spark.readStream.format("zabka-topic").options(**_options(place)).load()


def _options(place: TopicPlace) -> dict[str, str]:
    secured = {"commandConfig": place.command_config} if place.command_config else {}
    return {"bootstrap": place.bootstrap, "topic": place.topic, **secured}


def of_shares(spark: SparkSession, made: list[Share]) -> DataFrame:
    """Return the rows of `zabka-journal` for the journals of a directory.

    The caller plans the shares, because Spark would start a Python process for each planning step.
    """

    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for some in numbers:
            for number in some["id"].to_pylist():
                yield from read_share(made[number])

    return spark.range(0, len(made), 1, max(1, len(made))).mapInArrow(rows, SCHEMA)


def _of_uri(spark: SparkSession, place: Uri, types: str) -> DataFrame:
    """Return the rows of whole files that Hadoop's client reads, several per task.

    The lines are parsed like those of files in a directory.
    """
    root, requested = str(place), frozenset(types.split(","))
    files = (
        spark.read.format("binaryFile")
        .option("pathGlobFilter", "*.jsonl")
        .option("recursiveFileLookup", "true")
        .load(root)
        .select("path", "content")
    )

    def rows(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for some in found:
            for path, content in zip(some["path"], some["content"], strict=True):
                key = below(root, path.as_py())
                if is_journal(key):
                    file, data = placed(Path(), key), io.BytesIO(content.as_py())
                    end = data.getvalue().rfind(b"\n") + 1
                    yield from batches(read_file(file.run, file.path.name, data, (0, end), requested))

    return files.mapInArrow(rows, SCHEMA).select(*map(f.col, SCHEMA.names))


def below(root: str, path: str) -> str:
    """Return a file's path relative to the root, even if the two are written differently.

    File systems differ in the number of slashes after a scheme. If the root has no authority, Hadoop's client returns
    paths with its default authority.
    """
    if ":///" in root:
        path = _AUTHORITY.sub("", path, count=1)
    plain = re.sub(r"^([a-z0-9+.-]+):/+", r"\1:/", root), re.sub(r"^([a-z0-9+.-]+):/+", r"\1:/", path)
    inside = plain[1].removeprefix(plain[0]).lstrip("/")
    return inside or plain[1].rpartition("/")[2]
