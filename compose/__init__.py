"""The parts of a cluster: its nodes, the hosts on which they run, and how they are started and stopped.

`topology` describes a cluster, `plan` creates the description from the options, and `containers` creates one for
containers. An `agent` on every host runs that host's processes (`host`, `processes`), performs the API's actions on
them, and sends their journals and faults to the API. `up` starts an agent, waits until the cluster accepts requests,
and stops it again. `node` is the first module of each process.

`testing` and `cli` may import the package. It imports `api`, `broker_sim` and what is below them, but never
`simulation`. To learn the code, read `topology` first, and then `host`.
"""
