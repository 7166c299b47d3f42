"""A coordinator that loads a long log from a slow disk rejects requests meanwhile.

A coordinator that replies too early is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kio.schema.errors import ErrorCode

from tests.simulation.injecting import broken
from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.store import GroupStore, java_hash
from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.group_client import GroupMember, GroupSettings
from zabka.simulation.checkers.loaded_coordinators import NAME
from zabka.simulation.cluster.node_names import broker_name
from zabka.simulation.cluster.world import World
from zabka.simulation.settings import WorldSettings

P0 = TopicPartition("orders", 0)
GROUP = "readers"
COMMITS, SLOW_FACTOR = 20, 1_000
SETTINGS = WorldSettings(broker_keys={"offsets.load.buffer.size": "1", "log.index.interval.bytes": "1"})
"""Settings with which a coordinator loads one batch per read, and a search for an offset reads only batch headers."""
_FAILURES = (KafkaRequestFailed, KafkaUnavailable)


@contextmanager
def coordinators_answer_while_they_load() -> Iterator[None]:
    """Injected bug: a coordinator counts a __consumer_offsets partition as loaded when it starts to load it."""

    def owns(self: GroupStore, group_id: str) -> bool:
        return self.partition_for(group_id) in {**self._owned, **self._loading}

    with broken(GroupStore, owns=owns, is_loading=lambda self, group_id: False):
        yield


async def _commit(client: KafkaClient, runtime: Runtime) -> None:
    """Commit an offset COMMITS times, so that the group's log is long."""
    member = GroupMember(client, GroupSettings(GROUP, (P0.topic,)))
    offset = 0
    while offset < COMMITS:
        with suppress(*_FAILURES):
            await member.commit_alone({P0: offset + 1})
            offset += 1
            continue
        await runtime.sleep(100)


async def _fetch(client: KafkaClient, runtime: Runtime, errors: list[ErrorCode]) -> int:
    """Fetch the group's committed offset, with retries. Append the errors of the failed attempts to `errors`."""
    member = GroupMember(client, GroupSettings(GROUP, (P0.topic,)))
    while True:
        try:
            return (await member.committed([P0]))[P0]
        except KafkaRequestFailed as refused:
            errors.append(refused.error)
        except KafkaUnavailable:
            pass
        await runtime.sleep(5)


def moved_coordinator() -> tuple[World, int, list[ErrorCode]]:
    """Kill the coordinator of a group with many commits while all disks are slow.

    Return the world, the committed offset that the next coordinator returned, and the errors of the failed attempts.
    """
    world = World(1, SETTINGS)
    world.start()
    client, machine = world.kafka_client("committer")
    world.until(lambda: world.unsettled() is None, what="a settled cluster")
    made = client.create_topic(P0.topic, assignment={0: (1, 2, 3)}, timeout_ms=10_000)
    world.until_done(machine.begin(made, "the topic"))
    world.until_done(machine.begin(_commit(client, machine.runtime()), "the commits"))
    znodes = world.replication.znodes
    number = java_hash(GROUP) % len(znodes.topics[CONSUMER_OFFSETS].partitions)
    coordinator = broker_name(znodes.states[TopicPartition(CONSUMER_OFFSETS, number)].leader)
    for name in world.broker_names():
        world.slow_disk(name, SLOW_FACTOR)
    world.kill(coordinator)
    errors: list[ErrorCode] = []
    found = world.until_done(machine.begin(_fetch(client, machine.runtime(), errors), "the offset"))
    return world, found, errors


def test_coordinator_rejects_requests_until_its_log_is_loaded() -> None:
    world, found, errors = moved_coordinator()
    world.end_world()
    assert found == COMMITS
    assert ErrorCode.coordinator_load_in_progress in errors
    assert world.record.violations == []
    assert world.record.had_to_check()[NAME] > COMMITS


def test_coordinator_that_responds_while_loading_is_detected() -> None:
    with coordinators_answer_while_they_load():
        world, _, errors = moved_coordinator()
    world.end_world()
    assert ErrorCode.coordinator_load_in_progress not in errors
    (first, *_) = world.record.violations
    assert NAME in first.detail
    assert "OFFSET_FETCH for readers with none, and it leads __consumer_offsets-" in first.detail
