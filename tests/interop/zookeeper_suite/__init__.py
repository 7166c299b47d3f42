"""Apache ZooKeeper's tests of its client, from its tests.jar, run with our peers.

Each class runs in a separate JVM, as in ZooKeeper's build. There, a test starts its server within that JVM. Here, the
server is an external process (`OutsideServer.java`, selected by ZooKeeper's own property), and its Java beans are not
read (`JMXEnv.java`).
"""
