"""Invariants of a history: of ZAB, controllers, replicas, records, and the results that clients received.

Each checker is a separate fold over entries, or over the calls and replies of clients, and does not depend on the code
that it checks. Its rules come from the papers, from TLA+ specifications, and from Kafka and ZooKeeper; each module
names its source. The simulated world runs the checkers at every step; live tests and campaigns run them on whole
journals. The checkers import only `journal`, and every package may import them.

To learn the code, read `invariants` first. It defines a checker, and runs several checkers over one history.
"""
