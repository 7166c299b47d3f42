"""Kafka's wire protocol: every message by API key and version, and its encoding.

`kafka_schema` has the messages (kio's classes), and `frames` encodes and decodes them. Frequent messages have
hand-written codecs: `produce_wire`, `fetch_wire`, `metadata_messages`, `control_wire`. This package depends on neither
clients nor brokers, and all higher packages may import it. To learn the code, read `kafka_schema` first, then `frames`.
"""
