"""The coordination service: ZAB, the replicated tree, ZooKeeper's formats and ports, and clients for them.

Layers; each may import the layers to its left:

    jute, records, txn, ids, ... -> auth -> zab -> tree -> txnlog -> client, server

`runtime` (the asyncio implementation of `ports`) is outside these layers. The package imports only `journal`, and
every higher package may import it. Everything except `runtime`, `txnlog`, `server` and the asyncio parts of `client`
is pure: no clock, no socket, no file. Pure code returns the actions that it needs as effects. To follow a write from
the request to the reply, begin with `tree.service`, then read `zab.peer` and `zab.broadcast`. For the process that
runs them, begin with `server.process.driver`.
"""
