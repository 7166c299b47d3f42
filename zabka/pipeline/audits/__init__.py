"""Audits: every invariant of `zabka.journal.judges` over any number of histories, as a Spark job.

`judging` judges one history, entry by entry, and tells each violation with the chain of causes behind it; `histories`
finds histories and says how each can be played again; `jobs` spreads them over Spark's tasks and writes the tables.

`cli` may import it.  Begin with `judging`.
"""
