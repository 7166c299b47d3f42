"""A Java program that starts Apache ZooKeeper on many configurations, and its Python interface."""
