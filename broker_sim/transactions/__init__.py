"""The transaction coordinator (kafka.coordinator.transaction, KIP-98): states, records, store, markers.

`metadata` and `records` do no I/O and never wait. `store`, `markers` and `coordinator` wait only for their ports.
"""
