"""The data pipeline: Spark turns journals into tables.

`gold` lists the tables: each is a function of a `Journal` (`rows`), in `tables`, `reigns`, `availability` and
`ensembles`.  `source` is a Spark data source that reads journal files, as a batch or as a stream; `entries` says which
line is an entry, `ranges` reads lines, `runs` says which history a file belongs to, and `positions` and `held` how far
a stream has read and what it still needs.  `jobs` makes the tables once, and `stream` keeps a lake (`lake`) and the
tables fresh; `versions` says where tables lie.  `session` is how a Spark session is made.
The room knows the journal by its file format and its schema of events.

`cli` and `bench` may import it, and `api` reads only the files that it writes.  Begin with `gold`: each function
that it names is one table, and its docstring says what a row means.
"""
