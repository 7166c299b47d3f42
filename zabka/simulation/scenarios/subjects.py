"""The subjects of scenarios and lessons, by which the library can be filtered."""

from __future__ import annotations

from typing import Literal, get_args

Subject = Literal[
    "election", "controller", "replication", "isr", "transactions", "groups", "reassignment", "storage", "sessions",
    "network",
]  # fmt: skip
"""What a scenario is about.

- `election`: leaders of partitions and of the ensemble
- `controller`: the controller, its epoch and its requests
- `replication`: logs, their truncation and synchronisation
- `isr`: in-sync replicas and the minimum of them
- `transactions`: transactional producers and their coordinator
- `groups`: consumer groups and their offsets
- `reassignment`: partitions that move to other brokers
- `storage`: disks, snapshots and epochs on disk
- `sessions`: ZooKeeper sessions, ephemeral znodes and watches
- `network`: links that are cut or slow
"""
SUBJECTS: tuple[str, ...] = get_args(Subject)
