"""Machines that run peers, brokers and clients, and the worlds that consist of them.

A machine runs the code of `zabka peer` or `zabka broker` unchanged, with the same configuration, ports, driver, storage
and files, but on a simulated disk and on the event loop, sockets and clocks of `zabka.simulation.engine`. Nothing in
this package replaces production code.

Builds on `engine`, `checkers` and the packages below them; `workloads` and all packages above it, and `zabka.testing`,
import it. To learn the code, read `peer_machine` first, then `ensemble_world`, `cluster_world` and `world`.
"""
