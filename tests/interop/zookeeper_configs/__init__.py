"""A Java program that starts Apache ZooKeeper with many configurations, and its Python interface."""
