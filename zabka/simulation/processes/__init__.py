"""Whole processes in virtual time: the production code on an event loop, sockets and clocks of the simulated world.

`loop` is an asyncio event loop on the world's scheduler, `transports` are the transports on its sockets, `tcp`
models the kernels and the network between them, `virtual_time` replaces the functions of `time`, and `machine` runs,
pauses and kills processes.  The package is independent of what the processes do: begin with `Machine`.
"""
