"""The simulated world: the same cluster in virtual time, in one process, from one seed."""
