"""The data pipeline: Spark jobs that turn journals into tables.

`gold` lists the tables: each is a function of a `Journal` (`rows`), in `tables`, `losses`, `controller_terms`,
`availability` and `ensembles`. `source` is a Spark data source that reads journal files, as a batch or as a stream.
`entries` decides which line is an entry, `ranges` reads lines, `runs` maps a file to its history, and `positions` and
`held` store how far a stream has read and which lines it still needs. `jobs` builds the tables once. `stream` updates a
lake (`lake`) and its tables continuously. `versions` is the layout of tables on disk, and `session` creates the Spark
session. This package knows the journal only by its file format and its schema of events.

`cli` and `bench` may import it, and `api` reads only the files that it writes. To learn the code, read `gold` first:
each function that it names is one table, and its docstring defines a row.
"""
