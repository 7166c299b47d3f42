"""What the API reads of Spark's tables: the lake's state, tables as rows, and audits.

It reads the files that `zabka.pipeline` writes and imports nothing of it.  Routes import this package.  Begin with
`tables`.
"""
