"""Apache ZooKeeper's own tests of its client, out of its tests.jar, against peers of ours.

Each class runs in a JVM of its own, as ZooKeeper's build does it.  A test starts its server within that JVM; here the
server is a process outside (`OutsideServer.java`, which ZooKeeper's own property chooses), and nobody asks for its Java
beans (`JMXEnv.java`).
"""
