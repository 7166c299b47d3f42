"""Kafka's protocol: every message by key and version, and its bytes.

`kafka_schema` gives the messages (kio's classes), `frames` turns them into frames and back; what is asked often has a
short way of its own: `produce_wire`, `fetch_wire`, `metadata_messages`, `control_wire`.  It knows neither clients nor
brokers, and everything above may import it.  Begin with `kafka_schema`, then `frames`.
"""
