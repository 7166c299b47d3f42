"""The code around a peer that does I/O: sockets, files, timers and the process (asyncio, uvloop).

Four packages; each may import the packages listed before it: `config` (configuration files), `net` (ports and wire
formats), `operator` (commands and metrics for operators), `process` (the driver, and the construction of a peer). No
other package of `ensemble` imports this one. Begin with `process.driver`.
"""
