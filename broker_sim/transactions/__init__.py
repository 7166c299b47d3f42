"""The transaction coordinator (kafka.coordinator.transaction, KIP-98): states, records, store, markers.

`metadata` and `records` are pure. `store`, `markers` and `coordinator` await only what their ports return.
"""
