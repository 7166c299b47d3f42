"""The machines of a simulated world, and the processes that run on them: the very peers and brokers of real clusters.

Stands on `kernel`, `network`, `disks`, `settings` and `record`; knows neither world nor judges: a node is given the
site it stands on, and tells a `Witness` what it does.  Judges, world and workloads may import it.  Begin with `site`
and `machine`, then `peer_node` and `broker_node`.
"""
