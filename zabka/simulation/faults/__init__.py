"""Random faults: a nemesis, its faults of nodes, links, brokers and disks, and operators that change the cluster.

A fault is a function that takes the `Nemesis`, injects the fault, and registers how to undo it.  Seeds draw faults from
the table in `chaos` and from tables passed to it, such as the one in `disk_faults`.  The scenarios `whole` and
`whole-cluster` use `process_faults`, `cluster_faults` and `episodes`.

The search builds runs of steps instead (`actions`).  A step is a record of a few words that selects an action and the
role of its target (`roles`).  The actions are in `node_actions`, `broker_actions` and `disk_actions`.

Builds on `cluster`; `seeds`, `search` and tests import it.  Begin with `nemesis`, then `chaos`.
"""
