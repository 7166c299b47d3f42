"""Quotas: their configuration, the measurement of rates, and throttling.

The package imports `configs`; `replication`, `handlers` and `kafka_port` import the package. To learn the code, begin
with `sampled_rate` (measurement), then `client_throttling`, `connection_quotas` and `replication_throttles`.
"""
