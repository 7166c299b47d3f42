"""JSON files of `zabka reassign`: the target replicas of partitions, and the target log directories of replicas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zabka.cli.java_numbers import json_number, json_text
from zabka.cli.kafka_command import CommandFailed
from zabka.journal.events import TopicPartition

ANY_DIRECTORY = "any"
"""Value used in the plan file instead of a log directory name: the broker chooses the directory."""

Assignment = dict[TopicPartition, list[int]]


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition on one broker. Replicas sort in the order in which Kafka's tool prints them."""

    broker_id: int
    topic_partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.topic_partition}-{self.broker_id}"


class Plan(NamedTuple):
    """Content of a reassignment file: its rows in order, and the target directory of each replica that has one."""

    rows: list[tuple[TopicPartition, list[int]]]
    directories: dict[TopicPartitionReplica, str]

    @property
    def topics(self) -> list[str]:
        """Topics in the file, without duplicates."""
        return list(dict.fromkeys(partition.topic for partition, _ in self.rows))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a known version. Raises CommandFailed if it is not valid."""
    try:
        document = json.loads(path.read_text())
    except (ValueError, RecursionError):
        raise CommandFailed(f"{path}: The input string is not a valid JSON") from None
    except OSError as reason:
        raise CommandFailed(str(reason)) from None
    if not isinstance(document, dict):
        raise CommandFailed(f"{path}: The input string is not a valid JSON")
    if document.get("version", 1) != 1:
        raise CommandFailed(f"Not supported version field value {document['version']}")
    return document


def read_plan(path: Path) -> Plan:
    """Read a reassignment file. Raises CommandFailed if it is not valid."""
    document = read_json(path)
    plan = Plan([], {})
    try:
        for row in document.get("partitions", []):
            partition = TopicPartition(json_text(row["topic"]), json_number(row["partition"]))
            replicas = [json_number(broker) for broker in row["replicas"]]
            directories = _strings(row["log_dirs"]) if "log_dirs" in row else [ANY_DIRECTORY] * len(replicas)
            if len(directories) != len(replicas):
                raise CommandFailed(
                    f"Size of replicas list [{', '.join(map(str, replicas))}] is different from size of log dirs list "
                    f"[{', '.join(directories)}] for partition {partition}"
                )
            plan.rows.append((partition, replicas))
            for broker_id, directory in zip(replicas, directories, strict=True):
                if directory != ANY_DIRECTORY:
                    plan.directories[TopicPartitionReplica(broker_id, partition)] = directory
    except (KeyError, TypeError, ValueError) as wrong:
        raise CommandFailed(f"a row of {path} cannot be read: {wrong!r}") from None
    return plan


def read_topics(path: Path) -> list[str]:
    """Read topic names from `{"topics":[{"topic":…}],"version":1}`. Raises CommandFailed if the file is not valid."""
    try:
        return [json_text(row["topic"]) for row in read_json(path).get("topics", [])]
    except (KeyError, TypeError, ValueError) as wrong:
        raise CommandFailed(f"a row of {path} cannot be read: {wrong!r}") from None


def _strings(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("log_dirs is not a list of directories")
    return values


def checked(plan: Plan) -> Assignment:
    """Return the target replicas of each partition. Raises CommandFailed if the plan cannot be executed."""
    rows = plan.rows
    if not rows:
        raise CommandFailed("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in rows):
        raise CommandFailed("Partition replica list cannot be empty")
    twice = duplicates([partition for partition, _ in rows])
    if twice:
        raise CommandFailed(f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}")
    wrong = [
        f"{partition} contains multiple entries for {','.join(map(str, again))}"
        for partition, replicas in rows
        if (again := duplicates(replicas))
    ]
    if wrong:
        raise CommandFailed(f"Partition replica lists may not contain duplicate entries: {'. '.join(wrong)}")
    return dict(rows)


def duplicates(items: Sequence[Any]) -> list[Any]:
    """Return the items that occur more than once."""
    return [item for item in dict.fromkeys(items) if items.count(item) > 1]


def as_json(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return the assignment as a JSON file for `--execute`."""
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(assignment[partition]),
            "log_dirs": [ANY_DIRECTORY] * len(assignment[partition]),
        }
        for partition in sorted(assignment)
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))
