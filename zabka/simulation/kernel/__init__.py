"""Virtual time and randomness: the queue of calls, futures and tasks, and random numbers from a seed or a choice
sequence.

All simulated tests build on this package, including those of single packages.  It imports only
`zabka.ensemble.ports`; every other package of simulation may import it.  Begin with `scheduler`, then `runtime`.
"""
