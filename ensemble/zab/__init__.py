"""ZAB: fast leader election, discovery, synchronisation and broadcast, as a state machine without I/O."""
