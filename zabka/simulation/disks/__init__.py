"""The disks of simulated nodes: what a crash keeps, what a power loss takes, and disks that fail.

Stands on `kernel`, ensemble's txnlog (real recovery reads what a faulty disk holds) and broker_sim's logs; nodes,
cores, faults and seeds may import it.  Begin with `disk`, then `faulty_disk` for peers and `faulty_log_directory` for
brokers.
"""
