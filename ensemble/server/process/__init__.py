"""A peer as a process: the driver that carries out its effects, and how everything is put together and ends.

It imports every other package of `server`; nobody in `ensemble` imports it.  Begin with `driver`, then `peer_process`.
"""
