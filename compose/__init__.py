"""Putting a cluster together: one topology, local processes or containers, the host agent, the command line."""
