"""Virtual time and chance: the queue of calls, futures and tasks on it, and random numbers, from a seed or a tape.

It is the ground of every simulated test of the project, also of those of single rooms, and imports nothing but
`zabka.ensemble.ports`.  Every other room of simulation may import it.  Begin with `scheduler`, then `runtime`.
"""
