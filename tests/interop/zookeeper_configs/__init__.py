"""A Java program that starts Apache ZooKeeper with many configurations, and the Python module that calls it."""
