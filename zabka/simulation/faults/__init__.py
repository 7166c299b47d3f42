"""Random faults: a nemesis, its faults of nodes, links, brokers and disks, and cluster operators.

A fault is a function that takes the `Nemesis`, injects the fault, and registers how to undo it. `chaos` chooses faults
at random from its table and from tables passed to it, such as the table in `disk_faults`. The scenarios `whole` and
`whole-cluster` use `process_faults`, `cluster_faults` and `episodes`.

The search (`zabka.simulation.search`) builds runs from steps instead (`actions`). A step is a record of a few random
numbers, which select an action and the role of its target, such as leader or controller (`roles`). The actions are in
`node_actions`, `broker_actions` and `disk_actions`.

The package uses `cluster`; `seeds`, `search` and tests import it. To learn the code, read `nemesis` first, then
`chaos`.
"""
