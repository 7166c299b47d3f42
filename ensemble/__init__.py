"""The coordination service: ZAB, the replicated tree, ZooKeeper's formats and ports, and clients for them."""
