"""The lake: the lines of journals that a stream stores, committed batch by batch.

`bronze/type=T/day=D/` has every line unchanged, with its position; lines that are not entries have the type
`__HIVE_DEFAULT_PARTITION__`. `silver/T/day=D/` has a typed column for each field of the event type T. The gold tables
are made from bronze, with the layout that `zabka.pipeline.versions` describes. `_commits/` has one file for each batch:
the files that it wrote, and the lines of each node. A file's name contains its batch and its share of the batch, so a
batch that is written again after a kill writes the same files. A reader that ignores the commits also reads every line
once, as soon as the stream continues.

`writer` is Spark's sink, `silver` defines the columns of a type, `commits` is the log. Begin with `writer`.
"""
