"""Journals in a Kafka topic: `publish` writes lines to the topic, `source` is the Spark source that reads them.

A line is a record: its key is the path of its file, and a header contains the position of the line in the file. So the
lines of a file stay in order, in one partition. Reading the topic yields the same rows as reading the files, and the
same lines are quarantined for the same reasons. The journals of the topic's own brokers can be published, even during
faults.

Begin with `records`.
"""
