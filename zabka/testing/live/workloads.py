"""Workloads on a live cluster: producers that verify their records, and members of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zabka.testing.cluster import ConsumerCounts, TransactionCounts, WorkloadCounts
from zabka.testing.live.http_api import HttpApi


class Workload:
    """A workload that runs in the process of the API server."""

    def __init__(self, api: HttpApi, workload_id: str) -> None:
        self._api = api
        self._path = f"/api/v1/workloads/{workload_id}"

    @property
    def counts(self) -> WorkloadCounts:
        """The workload's current counts."""
        return _counts(self._api.get(self._path))

    def stop(self) -> WorkloadCounts:
        """Stop the workload, and return the final counts."""
        return _counts(self._api.request("DELETE", self._path))


class Consumer:
    """A member of a consumer group, which runs in the process of the API server."""

    def __init__(self, api: HttpApi, workload_id: str) -> None:
        self._api = api
        self._path = f"/api/v1/workloads/{workload_id}"

    @property
    def counts(self) -> ConsumerCounts:
        """The consumer's current counts."""
        return _consumer_counts(self._api.get(self._path))

    def stop(self) -> ConsumerCounts:
        """Make the consumer commit and leave its group, and return the final counts."""
        return _consumer_counts(self._api.request("DELETE", self._path))


class Transactions:
    """A transactional producer or a read-process-write loop, which runs in the process of the API server."""

    def __init__(self, api: HttpApi, workload_id: str) -> None:
        self._api = api
        self._path = f"/api/v1/workloads/{workload_id}"

    @property
    def counts(self) -> TransactionCounts:
        """The workload's current counts."""
        return _transaction_counts(self._api.get(self._path))

    def stop(self) -> TransactionCounts:
        """Make the workload end its open transaction, and return the final counts."""
        return _transaction_counts(self._api.request("DELETE", self._path))


def _transaction_counts(counts: Mapping[str, Any]) -> TransactionCounts:
    records = counts["acknowledged"] if counts["kind"] == "transactional-producer" else counts["consumed"]
    return TransactionCounts(counts["committed"], counts["aborted"], counts["unknown"], records)


def _consumer_counts(counts: Mapping[str, Any]) -> ConsumerCounts:
    return ConsumerCounts(
        counts["consumed"], counts["duplicates"], counts["out_of_order"], counts["lag"], list(counts["partitions"])
    )


def _counts(counts: Mapping[str, Any]) -> WorkloadCounts:
    return WorkloadCounts(counts["sent"], counts["acknowledged"], counts["failed"], counts["lost"], counts["verified"])
