"""A simulated broker: logs, replication, ISR upkeep, the Kafka port, and the small Kafka client of the workloads."""
