"""Journals in a Kafka topic: `publish` puts lines there, `source` is the Spark source that reads them.

A line is a record: its key is the path of its file, and a header says at which byte it began.  So the lines of a file
stay in their order, in one partition, and what is read from the topic is what is read from the files: the same rows,
set aside for the same reasons.  The brokers may be those that the journals tell of, while these are being broken.

Begin with `records`.
"""
