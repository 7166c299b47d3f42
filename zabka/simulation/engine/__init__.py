"""Runs whole processes in virtual time: queue of calls, event loops, TCP, machines, and taps on messages.

Builds on `filesystem` and ensemble's ports; the higher packages of simulation import it, and api, cli, pipeline and
testing use its taps. To learn the code, read `scheduler` first, then `loop`, `tcp` and `machine`.
"""
