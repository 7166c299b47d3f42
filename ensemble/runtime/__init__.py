"""asyncio's side of `zabka.ensemble.ports` (clock, timers, tasks), and links between real nodes, which faults can cut.

It touches the event loop, sockets and the process.  Nodes that really run import it: peers, clients, brokers, and the
host agent that injects faults; pure code never does.  Begin with `asyncio_runtime`, then `links`.
"""
