"""Whose session it was that ended."""

from __future__ import annotations

from zabka.testing.cluster import Cluster, Happening
from zabka.testing.live.cluster import LiveCluster


def expired(cluster: Cluster | LiveCluster, after_us: int | None = None) -> list[Happening]:
    """The brokers' sessions that the ensemble declared dead since the test began, or after a moment.

    Other clients' do not count.  A client that turns away from a server that does not answer in time never hears of the
    session that this server made for it: nobody closes that one, and it ends by its timeout, perhaps in a later test.
    """
    brokers = {event["session_id"] for event in cluster.events("broker_registered", after_us=-1)}
    ended = cluster.events("session_expired", after_us=after_us)
    return [event for event in ended if event["session_id"] in brokers]
