"""SASL authentication of Kafka clients: the mechanisms, and the exchange before a connection's first request.

`sasl_connection`, `token_verifiers` and `key_download` do I/O; the other modules are pure. Only `broker_process` and
tests import this package. To learn the code, read `authenticator` first.
"""
