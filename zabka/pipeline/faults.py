"""The faults that were injected, and for how long they held."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, LongType, StringType

from zabka.pipeline.bodies import bodies, milliseconds
from zabka.pipeline.rows import Journal


def faults(journal: Journal) -> DataFrame:
    """Every fault: run, fault_id, kind, source, target, both_ways, delay_ms, from_us, to_us, duration_ms.

    to_us and duration_ms are null while it holds.  Who injects a fault removes it, so both readings are of one clock.
    """
    told = bodies(
        journal.rows, ["fault_injected", "fault_removed"],
        fault_id=StringType(), kind=StringType(), source=StringType(), target=StringType(), both_ways=BooleanType(),
        delay_ms=LongType(),
    )  # fmt: skip
    in_order = Window.partitionBy("run", "node", "fault_id").orderBy("node_seq")
    removed = f.when(f.lead("type").over(in_order) == "fault_removed", f.lead("at_us").over(in_order))
    return (
        told.withColumn("to_us", removed)
        .where("type = 'fault_injected'")
        .withColumn("duration_ms", milliseconds(f.col("to_us") - f.col("at_us")))
        .select(
            "run", "node", "fault_id", "kind", "source", "target", "both_ways", "delay_ms",
            f.col("at_us").alias("from_us"), "to_us", "duration_ms", "node_seq",
        )
    )  # fmt: skip
