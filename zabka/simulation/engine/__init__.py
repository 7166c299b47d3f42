"""Runs whole processes in virtual time: the queue of calls, event loops, TCP, machines, and taps on messages.

Builds on `filesystem` and ensemble's ports; the higher packages of simulation import it, and api, cli, pipeline and
testing use its taps.  Begin with `scheduler`, then `loop`, `tcp` and `machine`.
"""
