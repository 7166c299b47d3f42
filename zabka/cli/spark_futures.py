"""Plays futures of a run as Spark tasks, one task for each future (`zabka what-if --futures N --master MASTER`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from zabka.cli.failure import fail
from zabka.cli.futures import Changes, Future, History, PlayFutures, play_future
from zabka.cli.simulate import USAGE
from zabka.cli.spark_connect import no_connect
from zabka.ensemble.runtime.extras import Lacking, require


@contextmanager
def spark_futures(master: str) -> Iterator[PlayFutures]:
    """Yield the function that plays futures on a Spark cluster. Exit with an error message if Spark fails."""
    try:
        require("spark", "futures as Spark tasks are")
    except Lacking as missing:
        fail(missing)
    from zabka.pipeline.campaign.spark_players import spark_for_tasks
    from zabka.pipeline.packed import FUTURES, NotPacked
    from zabka.pipeline.session import FAILURES, NoSpark, first_line

    if (connect := no_connect(master)) is not None:
        fail(connect, USAGE)
    try:
        with (
            TemporaryDirectory(prefix="zabka-what-if-") as directory,
            spark_for_tasks(master, Path(directory), "zabka what-if", FUTURES) as spark,
        ):
            yield partial(_play, spark.sparkContext)
    except (NotPacked, NoSpark) as reason:
        fail(reason, USAGE)
    except FAILURES as failed:
        fail(first_line(failed))


def _play(context: Any, history: History, futures: Sequence[Changes]) -> list[Future]:
    """Play the futures as tasks of a SparkContext."""
    task = partial(play_future, history)
    found: list[Future] = context.parallelize(list(futures), len(futures)).map(task).collect()
    return found
