"""The Kafka controller: the race for /controller, epoch fencing, state machines, elections, control requests."""
