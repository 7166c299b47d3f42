"""Ensembles and clusters of whole processes: the search runs the production code.

Each machine runs what `zabka peer` or `zabka broker` runs: its configuration, ports, driver, storage and files, on
the event loop, sockets and clocks of `zabka.simulation.engine` and a simulated disk.  Nothing in this package
replaces production code.  Begin with `PeerMachine`, then `ServingWorld`, then `serve_seed`.
"""
