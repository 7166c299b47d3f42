"""Whole processes in virtual time: the very code that serves, on an event loop, sockets and clocks of the world.

`loop` is an asyncio event loop on the world's scheduler, `transports` are its sockets' ends, `tcp` is the kernels and
the network between them, `virtual_time` answers what a process asks of `time`, and `machine` runs, pauses and kills
processes.  Nothing in here knows what the processes are about: begin with `Machine`.
"""
