"""Quotas: their configuration, the measurement of rates, and throttling.

They import `configs`; replication, handlers and the port import them. Begin with `sampled_rate` (measurement), then
`client_throttling`, `connection_quotas` and `replication_throttles`.
"""
