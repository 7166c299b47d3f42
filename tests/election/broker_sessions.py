"""Finds the broker sessions that have expired."""

from __future__ import annotations

from zabka.testing.cluster import Cluster, Happening
from zabka.testing.live.cluster import LiveCluster


def expired(cluster: Cluster | LiveCluster, after_us: int | None = None) -> list[Happening]:
    """Return the broker sessions that expired since the start of the test or since `after_us`.

    Sessions of other clients do not count. A client can leave a slow server before it receives the session that the
    server created. That session is never closed, and expires later, perhaps during another test.
    """
    brokers = {event["session_id"] for event in cluster.events("broker_registered", after_us=-1)}
    ended = cluster.events("session_expired", after_us=after_us)
    return [event for event in ended if event["session_id"] in brokers]
