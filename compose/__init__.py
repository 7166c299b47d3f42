"""The composition of a cluster: its nodes, where they run, and how they are started and stopped.

`topology` is the one description of a cluster, `plan` creates it from the options, and `containers` creates a
composition from it. An `agent` on every host owns that host's processes (`host`, `processes`), performs the API's
actions on them, and serves their journals and faults. `up` starts an agent, waits until the cluster serves, and stops
it again. `node` is the first module of each process.

`testing` and `cli` may import it. It imports `api`, `broker_sim` and what is below them, but never `simulation`. Begin
with `topology`, then `host`.
"""
