"""Kafka's protocol: messages by key and version, and their bytes."""
