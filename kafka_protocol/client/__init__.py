"""A small Kafka client: what producers, consumers and administrators ask, and the workloads built on it."""
