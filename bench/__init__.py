"""Benchmarks that compare zabka with Apache ZooKeeper and Apache Kafka, on one machine in one run.

No package imports this one; it may import every package. `python -m bench` lists the benchmarks. To learn the code,
read `run` first, which every benchmark uses, and `results`, which contains the measurements; `servers` starts the
servers of both sides.
"""
