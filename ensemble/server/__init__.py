"""The shell around a peer: sockets, files, timers and the process (asyncio, uvloop).

Four packages, each of which may import those before it: `config` (what the files say), `net` (ports and their bytes),
`operator` (what people and monitoring ask), `process` (the driver, and how a peer is put together).  Nothing in
`ensemble` imports this package.  Begin with `process.driver`.
"""
