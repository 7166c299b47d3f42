"""Virtual time for whole processes: the queue of calls, event loops, TCP, machines, and taps on their messages.

Imports `filesystem` and the ports of ensemble; every higher package of simulation may import it.  Unit tests of single
packages use `scheduler` and `runtime`.  Begin with `scheduler`, then `loop`, `tcp` and `machine`.
"""
