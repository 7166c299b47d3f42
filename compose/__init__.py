"""Putting a cluster together: which nodes it has, where they run, and who starts and stops them.

`topology` is the one description of a cluster, `plan` makes it of what was asked for, and `containers` makes a
composition of it.  An `agent` on every host owns that host's processes (`host`, `processes`), does to them what the API
asks, and hands on their journals and faults; `up` starts an agent, waits until the cluster serves, and stops it again.
`node` is what each process runs first.

`testing` and `cli` may import it; it imports `api`, `broker_sim` and what is below them, but never `simulation`.
Begin with `topology`, then `host`.
"""
