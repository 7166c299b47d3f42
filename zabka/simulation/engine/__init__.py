"""Virtual time and randomness: the queue of calls, futures, tasks, random streams and choice sequences.

All simulated tests build on this package, including those of single packages.  It imports only
`zabka.ensemble.ports`; every other package of simulation may import it.  Begin with `scheduler`, then `runtime`.
"""
