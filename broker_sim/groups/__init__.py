"""Consumer groups: the coordinator's state machine, and what it keeps in `__consumer_offsets` and under /consumers."""
