"""The coordination service: ZAB, the replicated tree, ZooKeeper's formats and ports, and clients for them.

Layers, each of which may import those to its left:

    jute, records, txn, ids, ... -> auth -> zab -> tree -> txnlog -> client, server

`runtime` (asyncio's side of `ports`) stands beside them.  The room imports `journal` alone, and every room above may
import it.  All but `runtime`, `txnlog`, `server` and the asyncio parts of `client` is pure: no clock, no socket, no
file; what such code wants done it returns as effects.  To follow a write from a client to its answer begin with
`tree.service`, then `zab.peer` and `zab.broadcast`; to see the process around them begin with `server.process.driver`.
"""
