"""Machines that run peers, brokers and clients, and the worlds that consist of them.

Each machine runs what `zabka peer` or `zabka broker` runs: its configuration, ports, driver, storage and files, on
the event loop, sockets and clocks of `zabka.simulation.engine` and a simulated disk.  Nothing in this package
replaces production code.

Builds on `engine`, `checkers` and the packages below them; `workloads` and all packages above it, and
`zabka.testing`, import it.  Begin with `peer_machine`, then `ensemble_world`, `cluster_world` and `world`.
"""
