"""Implements `zabka.ensemble.ports` (clock, timers, tasks) with asyncio, and links that can have faults.

The package uses the event loop, sockets and the process. Real nodes import it: peers, clients, brokers, and the host
agent that injects faults. Pure code never imports it. To learn the code, read `asyncio_runtime` first, then `links`.
"""
