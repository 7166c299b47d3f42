"""The API's access to the tables that Spark wrote: state of the lake, table rows, and audit results.

The package reads the files that `zabka.pipeline` writes and imports nothing from it. Routes import this package. To
learn the code, read `tables` first.
"""
