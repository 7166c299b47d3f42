"""Apache ZooKeeper's own tests of its client, from its tests.jar, against our peers.

Each class runs in its own JVM, as in ZooKeeper's build. A test starts its server within that JVM; here the server is an
external process (`OutsideServer.java`, which ZooKeeper's own property selects), and its Java beans are not read
(`JMXEnv.java`).
"""
