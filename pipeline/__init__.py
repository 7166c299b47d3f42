"""The data pipeline: Spark turns journals into tables.

`source` is a Spark data source that reads journal files, as a batch or as a stream; `entries` says which line is an
entry, and `runs` which history a file belongs to.  `tables` makes of their entries controllers' reigns (`reigns`),
partitions' leaderships, changes of ISRs, and availability; `jobs` writes these as Parquet, and `session` is how a Spark
session is made.  It knows the journal by its file format and its schema of events.

`tools` and `bench` may import it, and `api` reads only the files that it writes.  Begin with `tables`: each function is
one table, and its docstring says what a row means.
"""
