"""The API's access to Spark's tables: the state of the lake, tables as rows, and audits.

The package reads the files that `zabka.pipeline` writes and imports nothing from it. Routes import this package. Begin
with `tables`.
"""
