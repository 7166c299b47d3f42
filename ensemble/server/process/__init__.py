"""A peer as a process: the driver that executes the peer's effects, and the start and end of all its parts.

The package imports every other package of `server`; no package of `ensemble` imports it. To learn the code, begin with
`driver`, then `peer_process`.
"""
