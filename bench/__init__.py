"""Measures our ensemble beside Apache ZooKeeper 3.9.5 in one run on one machine; `make bench` is the way in."""
