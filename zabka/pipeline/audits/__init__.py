"""Audits: every invariant of `zabka.journal.checkers` over any number of histories, as a Spark job.

`checking` checks one history, entry by entry, and reports each violation with its chain of causes. `histories` finds
histories and the command that replays each. `jobs` distributes them over Spark's tasks and writes the tables.

`cli` may import this package. To learn the code, read `checking` first.
"""
