"""Executes runs as Spark tasks: one task per run, whose row arrives at the driver when the task ends.

The rows are returned through an accumulator. Spark applies the update of an action's task once, however often the task
was tried, and it does so when the task ends, not when the job ends. So if the driver is killed, only the runs in
progress are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from zabka.pipeline.campaign.engine import Keep, Players
from zabka.pipeline.campaign.play import Run, row
from zabka.pipeline.inbox import Inbox
from zabka.pipeline.packed import RUNS
from zabka.pipeline.session import a_session


@contextmanager
def spark_players(master: str, directory: Path) -> Iterator[Players]:
    """Yield a function that executes runs on the Spark cluster `master`.

    The archive with zabka's code for the executors is stored in `directory`. Raises NotPacked and NoSpark.
    """
    with spark_for_tasks(master, directory, "zabka campaign", RUNS) as spark:
        yield lambda runs, keep: _play(spark.sparkContext, runs, keep)


@contextmanager
def spark_for_tasks(master: str, directory: Path, app_name: str, needs: str) -> Iterator[SparkSession]:
    """Yield a Spark session whose executors need no installed zabka. Raises NotPacked and NoSpark."""
    with a_session(
        master, app_name, directory, needs,
        # A run needs a core for about a second and reads almost no data, so data locality has no benefit.
        {"spark.locality.wait": "0s"},
    ) as spark:  # fmt: skip
        yield spark


def _play(context: SparkContext, runs: Sequence[Run], keep: Keep) -> None:
    inbox = context.accumulator([], Inbox(keep))
    encoded = [msgspec.json.encode(run) for run in runs]

    def task(elements: Iterable[bytes]) -> None:
        for element in elements:
            inbox.add([row(element)])

    try:
        context.parallelize(encoded, len(encoded)).foreachPartition(task)
    except KeyboardInterrupt:
        with suppress(Py4JError, OSError):  # Java may already have exited.
            context.cancelAllJobs()
        raise
