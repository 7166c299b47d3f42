"""The topics of a live cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zabka.kafka.topic_names import INTERNAL_TOPICS
from zabka.testing.cluster import Partition
from zabka.testing.live.http_api import HttpApi


class Topic:
    """A topic of a live cluster."""

    def __init__(self, api: HttpApi, name: str) -> None:
        self._api = api
        self._path = f"/api/v1/topics/{name}"
        self.name = name

    def describe(self) -> dict[str, Any]:
        """Return the API's complete response about the topic."""
        found: dict[str, Any] = self._api.get(self._path)
        return found

    @property
    def partitions(self) -> list[Partition]:
        """The topic's current partitions, ordered by number."""
        return [
            Partition(
                **{field: row[field] for field in ("partition", "leader", "leader_epoch", "isr", "replicas")},
                partition_epoch=row["partition_epoch"],
                high_watermark=row["high_watermark"],
                log_end_offsets={int(broker): end for broker, end in row["log_end_offsets"].items()},
            )
            for row in self.describe()["partitions"]
        ]

    @property
    def config(self) -> dict[str, str]:
        """The topic's configuration overrides."""
        return dict(self.describe()["config"])

    def set_config(self, changes: Mapping[str, str | None]) -> None:
        """Set configuration overrides; a value of None removes an override."""
        self._api.request("PATCH", f"{self._path}/config", dict(changes))

    def delete(self) -> None:
        """Delete the topic."""
        self._api.request("DELETE", self._path)


class Topics:
    """The topics of a live cluster."""

    def __init__(self, api: HttpApi, brokers: int) -> None:
        self._api = api
        self._brokers = brokers

    def __getitem__(self, name: str) -> Topic:
        return Topic(self._api, name)

    def create(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic, by default with a replica on every broker, and return it."""
        body: dict[str, Any] = {"name": name, "config": dict(config or {})}
        if assignment is not None:
            body["assignment"] = {str(p): list(replicas) for p, replicas in assignment.items()}
        else:
            body["partitions"] = partitions
            body["replication_factor"] = replication_factor or self._brokers
        self._api.post("/api/v1/topics", body)
        return self[name]

    def ask_for(self, name: str, partitions: int = 1) -> None:
        """Send the controller a request to create a topic, without waiting for the reply."""
        self._api.post_and_forget(
            "/api/v1/topics",
            {"name": name, "partitions": partitions, "replication_factor": self._brokers},
        )

    def names(self) -> list[str]:
        """Return the names of all topics in order, without Kafka's internal topics."""
        names = (topic["name"] for topic in self._api.get("/api/v1/topics"))
        return [name for name in names if name not in INTERNAL_TOPICS]
