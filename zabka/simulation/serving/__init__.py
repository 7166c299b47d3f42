"""Ensembles whose peers are whole processes: the code that serves is the code that is searched.

What runs on each machine is what `zabka peer` runs: its zoo.cfg, ports, driver, storage and files, on the event loop,
sockets and clocks of `zabka.simulation.processes` and a simulated disk.  Nothing in here stands in for any of it.
Begin with `PeerMachine`, then `ServingWorld`, then `serve_seed`.
"""
