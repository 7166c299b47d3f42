"""Journals in a Kafka topic: `publish` puts lines there, `source` is the Spark source that reads them.

A line is a record: its key is the path of its file, and a header holds the position where it began.  So the lines of a
file stay in their order, in one partition, and reading the topic gives the same rows as reading the files, with the
same lines quarantined for the same reasons.  The brokers may be those whose journals are published, even during faults.

Begin with `records`.
"""
