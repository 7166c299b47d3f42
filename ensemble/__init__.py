"""The coordination service: ZAB, the replicated tree, ZooKeeper's formats and ports, and clients for them.

Layers; each may import the layers to its left:

    jute, records, txn, ids, ... -> auth -> zab -> tree -> txnlog -> client, server

`runtime` (asyncio's side of `ports`) is next to these layers. The package imports only `journal`, and every higher
package may import it. Everything except `runtime`, `txnlog`, `server` and the asyncio parts of `client` is pure: no
clock, no socket, no file. Pure code returns the actions that it needs as effects. To follow a write from a client to
its answer begin with `tree.service`, then `zab.peer` and `zab.broadcast`; to see the process around them begin with
`server.process.driver`.
"""
