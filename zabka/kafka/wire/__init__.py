"""Kafka's protocol: every message by key and version, and its bytes.

`kafka_schema` has the messages (kio's classes), and `frames` encodes and decodes them.  Frequent messages have
hand-written codecs: `produce_wire`, `fetch_wire`, `metadata_messages`, `control_wire`.  This package knows neither
clients nor brokers, and everything above may import it.  Begin with `kafka_schema`, then `frames`.
"""
