"""The nodes of a live cluster record all messages of an election and of a failover.

Their journals contain the number of messages.
"""

from __future__ import annotations

from collections import Counter

import pytest

from zabka.journal.events import ControllerElected, LeaderEstablished, LearnerSynced
from zabka.journal.message_log import message_files
from zabka.journal.messages import Message
from zabka.journal.sightings import Matcher, read_sighting
from zabka.testing.live.cluster import LiveCluster


def recorded_messages(cluster: LiveCluster) -> list[Message]:
    """Return every message that its sender or its receiver has recorded."""
    matcher = Matcher({})
    for directory in sorted(cluster.data.glob("*/journal")):
        for path in message_files(directory, directory.parent.name):
            matcher.add(map(read_sighting, path.read_bytes().splitlines()))
    return matcher.messages()


def controller_requests(found: list[Message], epoch: int) -> list[Message]:
    """Return the requests that the controller with this epoch sent to brokers."""
    return [
        message
        for message in found
        if message.kind in ("LeaderAndIsr", "UpdateMetadata") and message.subject["controller_epoch"] == epoch
    ]


def all_answered(found: list[Message], epoch: int) -> bool:
    """Return whether each request of this controller has a response, and whether both ends recorded both messages."""
    answers = {message.answers: message for message in found if message.answers is not None}
    requests = controller_requests(found, epoch)
    whole = [request.lost is None and answers.get(request.id, request).lost is None for request in requests]
    return (
        any(request.kind == "LeaderAndIsr" for request in requests)
        and all(whole)
        and all(request.id in answers for request in requests)
    )


@pytest.mark.long
def test_election_and_failover_messages_are_recorded(zabka_cluster: LiveCluster) -> None:
    cluster = zabka_cluster
    cluster.topics.create("orders", partitions=3)
    killed, epoch, before = cluster.controller, cluster.controller_epoch, len(recorded_messages(cluster))
    assert killed is not None
    killed.kill()
    cluster.until(lambda: cluster.controller_epoch > epoch, what="another controller")
    leader, elections = cluster.zab_leader, len(cluster.events("leader_established"))
    assert leader is not None
    leader.kill()
    cluster.until(lambda: len(cluster.events("leader_established")) > elections, what="another leader")
    term = epoch + 1
    cluster.until(
        lambda: all_answered(recorded_messages(cluster), term), what="an answer to every request, in both files"
    )

    found, journal = recorded_messages(cluster), [entry.event for entry in cluster.journal()]
    assert len(found) > before
    elected = [event for event in journal if isinstance(event, ControllerElected) and event.controller_epoch == term]
    assert {message.source for message in controller_requests(found, term)} == {f"broker-{elected[0].broker_id}"}
    targets = {message.target for message in controller_requests(found, term) if message.kind == "LeaderAndIsr"}
    assert targets == {f"broker-{number}" for number in cluster.brokers} - {f"broker-{killed.id}"}

    kinds = Counter(message.kind for message in found)
    synced = sum(isinstance(event, LearnerSynced) for event in journal)
    assert synced >= 3
    for kind in ("FOLLOWERINFO", "LEADERINFO", "ACKEPOCH", "NEWLEADER"):
        assert kinds[kind] >= synced, kind
    assert kinds["DIFF"] + kinds["SNAP"] + kinds["TRUNC"] >= synced

    # Each remaining peer has sent its vote for the new leader to each other remaining peer, which received it.
    new = [event for event in journal if isinstance(event, LeaderEstablished)][-1]
    left = {f"peer-{number}" for number in cluster.peers} - {f"peer-{leader.id}"}
    votes = [message for message in found if message.kind == "Notification" and message.lost is None]
    ways = {(message.source, message.target) for message in votes if message.subject["vote"] == new.leader_id}
    assert {(one, other) for one in left for other in left if one != other} <= ways
    assert all(message.arrived_us is None or message.arrived_us >= message.sent_us for message in found)
