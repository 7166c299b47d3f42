"""Events as typed rows: what every table begins with."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType

INTS = ArrayType(LongType())
STRINGS = ArrayType(StringType())


def bodies(journal: DataFrame, kinds: list[str], **fields: DataType) -> DataFrame:
    """The entries of those types: run, node, node_seq, at_us, type, and the named fields of the body as columns."""
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    rows = journal.where(f.col("problem").isNull() & f.col("type").isin(kinds))
    parsed = rows.withColumn("e", f.from_json("body", schema))
    return parsed.select("run", "node", "node_seq", f.col("wall_us").alias("at_us"), "type", "e.*")


def milliseconds(us: Column) -> Column:
    """A duration in microseconds as whole milliseconds."""
    return (us / 1000).cast(LongType())
