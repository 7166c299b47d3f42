"""Quotas: how they are set, how rates are measured, and who is held back.

They go by `configs`; replication, handlers and the port import them.  Begin with `sampled_rate` (how a rate is
measured), then `client_throttling`, `connection_quotas` and `replication_throttles`.
"""
