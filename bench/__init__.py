"""Measures ours beside Apache's on one machine: the ensemble beside ZooKeeper, the brokers beside Kafka.

Nothing imports it, and it may import every room.  `make bench` runs the ensemble's figures: begin with `compare`,
which plays the `works` in `rounds` and ends in a `verdict`.  `make bench-kafka`, `crowd`, `failover`, `histories` and
`kafka-histories` run a module each, as the Makefile says.
"""
