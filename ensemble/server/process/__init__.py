"""A peer as a process: the driver that executes its effects, and the assembly and end of all parts.

The package imports every other package of `server`; no package of `ensemble` imports it. Begin with `driver`, then
`peer_process`.
"""
