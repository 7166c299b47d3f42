"""The lake: the lines of journals that a stream stores, committed batch by batch.

`bronze/type=T/day=D/` has every line unchanged, with its position; lines that are not entries have the type
`__HIVE_DEFAULT_PARTITION__`. `silver/T/day=D/` has a typed column for each field of the event type T. The gold tables
are computed from bronze, in the layout that `zabka.pipeline.versions` describes. `_commits/` has one file for each
batch, which lists the files that the batch wrote, and the lines of each node.

A file's name contains its batch and the task's number in the batch. If a stream is killed during a batch, it writes the
same files again after its restart. From then on, a reader that ignores the commits also reads every line exactly once.

`writer` is Spark's sink, `silver` defines the columns of a type, and `commits` is the log of batches. To learn the
code, read `writer` first.
"""
