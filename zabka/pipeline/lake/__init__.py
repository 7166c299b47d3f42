"""The lake: what a stream keeps of journals, and how readers see whole commits of it.

`bronze/type=T/day=D/` has every line as it is, with where it stood; lines that are no entries are of type
`__HIVE_DEFAULT_PARTITION__`.  `silver/T/day=D/` has a typed column for each field of the event type T.  The gold tables
are made of bronze, and lie as `zabka.pipeline.versions` says.  `_commits/` has one file for each batch: which files it
wrote, and which lines of which node.  A file's name says its batch and its share of it, so a batch that is written
again after a kill writes the same files: who ignores the commits reads every line once, too, as soon as the stream goes
on.

`writer` is Spark's sink, `silver` says which columns a type has, `commits` is the log.  Begin with `writer`.
"""
