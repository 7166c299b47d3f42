"""Machines that run peers, brokers and clients, and the worlds that consist of them.

Each machine runs what `zabka peer` or `zabka broker` runs: its configuration, ports, driver, storage and files, on
the event loop, sockets and clocks of `zabka.simulation.engine` and a simulated disk.  Nothing in this package
replaces production code.  Begin with `peer_machine`, then `ensemble_world`, `cluster_world` and `world`.
"""
