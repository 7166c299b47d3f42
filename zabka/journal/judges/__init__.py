"""What must hold of a history: invariants of ZAB, of controllers, replicas and records, and of what clients saw.

Each judge is a fold of its own over entries, or over the calls and answers of clients, and knows nothing of the code
that it judges: its rules come from the papers, from TLA+ specifications, from Kafka and ZooKeeper, and each module
names its source.  The simulated world asks the judges at every step, live tests and campaigns ask them of whole
journals.  They import `journal` alone, and every room may import them.

Begin with `invariants`, which holds what a checker is and how several watch one history.
"""
