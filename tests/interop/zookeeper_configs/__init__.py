"""A Java program that starts Apache ZooKeeper on many configurations, and how to ask it."""
