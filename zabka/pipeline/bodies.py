"""Events as typed rows, from which every table is built."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType

INTS = ArrayType(LongType())
STRINGS = ArrayType(StringType())
STANDINGS = ArrayType(
    StructType(
        [
            StructField(name, LongType())
            for name in (
                "replica", "log_end_offset", "leader_end_offset", "high_watermark", "caught_up_ms_ago",
                "lag_time_max_ms",
            )
        ]
    )
)  # fmt: skip
"""Type of a list of follower states at the time of a leader's decision (`ReplicaStanding`)."""


def bodies(reported: DataFrame, kinds: list[str], *columns: str, **fields: DataType) -> DataFrame:
    """Return the entries of those event types from a journal's rows.

    Columns: run, node, node_seq, at_us, mono_us, type, the other `columns`, and the event fields named in `fields`.
    """
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    rows = reported.where(f.col("problem").isNull() & f.col("type").isin(kinds))
    parsed = rows.withColumn("e", f.from_json("body", schema))
    return parsed.select("run", "node", "node_seq", f.col("wall_us").alias("at_us"), "mono_us", "type", *columns, "e.*")


def milliseconds(us: Column) -> Column:
    """Convert a duration in microseconds to whole milliseconds."""
    return (us / 1000).cast("bigint")
