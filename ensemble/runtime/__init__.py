"""asyncio's implementation of `zabka.ensemble.ports` (clock, timers, tasks), and connections with link faults.

The package uses the event loop, sockets and the process. Real nodes import it: peers, clients, brokers, and the host
agent that injects faults. Pure code never imports it. Begin with `asyncio_runtime`, then `links`.
"""
