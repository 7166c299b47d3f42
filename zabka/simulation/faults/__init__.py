"""Random faults: a nemesis, its faults for nodes, links, brokers and disks, and operators at work.

A fault is a function that takes the `Nemesis`, injects the fault, and registers how to undo it.  Seeds draw from the
table in `chaos` and from tables passed to it, such as those of `disk_faults`.  `process_faults`, `cluster_faults` and
`episodes` are those of the scenarios `whole` and `whole-cluster`.

The search uses `actions` instead and builds runs of them.  An act is a record of a few words that names a fault and the
role of its target (`roles`).  The actions are in `actions`, `broker_actions` and `disk_actions`.

Builds on `cluster`; `seeds`, `search` and tests import it.  Begin with `nemesis`, then `chaos`.
"""
