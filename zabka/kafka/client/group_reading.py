"""Reads all consumer groups of a cluster at once, with their members, committed offsets and lag.

A reading sends at most one request of each kind to each broker, and takes a limited time. It does not fail: if a
group's coordinator or a partition's leader does not answer, the group or the end offset is reported as unknown, with
the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.coordinators import KeyType, coordinators_of, coordinators_request
from zabka.kafka.client.group_admin import (
    GroupInfo,
    describe_request,
    descriptions_of,
    list_request,
    listings_of,
    offsets_of,
    offsets_request,
)
from zabka.kafka.client.reading import LATEST, Reading, by_broker, error_name, log_offsets_request
from zabka.kafka.ports import Endpoint, KafkaMessage

T = TypeVar("T")

GROUPS_MAX = 500
PARTITIONS_MAX = 10_000
"""Maximum number of partitions whose end offsets one reading requests."""
READING_MS = 5_000
METADATA_MS = 2_000
"""Maximum time in ms to wait for the list of brokers.

It is less than READING_MS, so that time is left for the groups if some brokers do not answer.
"""
DEAD = "Dead"


class GroupStatus(NamedTuple):
    """A group as its coordinator describes it.

    `ends` has the end offset of each partition that is assigned or has a committed offset, or the reason why it is
    unknown.
    """

    info: GroupInfo
    committed: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int | str]


class UnknownGroup(NamedTuple):
    """A group whose coordinator did not answer, or that has none. `coordinator` is None if it is not known."""

    coordinator: int | None
    reason: str


class GroupReading(NamedTuple):
    """The consumer groups of a cluster at one time.

    `silent` has the brokers that did not list all their groups, with the reason: there may be more groups. `omitted` is
    the number of groups above GROUPS_MAX. `problem` is the reason if no broker answered.
    """

    groups: Mapping[str, GroupStatus] = {}
    unknown: Mapping[str, UnknownGroup] = {}
    silent: Mapping[int, str] = {}
    omitted: int = 0
    problem: str = ""


async def read_groups(
    client: KafkaClient, runtime: Runtime, known: Iterable[str] = (), timeout_ms: int = READING_MS
) -> GroupReading:
    """Read the groups that the brokers list, and the `known` groups, which may have a coordinator that is silent."""
    reading = _GroupReading(client, runtime, timeout_ms)
    try:
        return await reading.read(sorted(set(known)))
    except KafkaUnavailable as reason:
        unknown = {group_id: UnknownGroup(None, str(reason)) for group_id in sorted(set(known))[:GROUPS_MAX]}
        return GroupReading(unknown=unknown, problem=str(reason))


class _GroupReading(Reading):
    """One read of the state of all groups, with its deadline and the brokers that did not reply."""

    def __init__(self, client: KafkaClient, runtime: Runtime, timeout_ms: int) -> None:
        super().__init__(client, runtime, timeout_ms)
        self._unlisted: dict[int, str] = {}
        self._unknown: dict[str, UnknownGroup] = {}

    async def read(self, known: list[str]) -> GroupReading:
        cluster = await self.client.metadata([], timeout_ms=min(METADATA_MS, self.left_ms()))
        brokers = list(cluster.brokers.values())
        listed = await self._listed(brokers)
        unlisted = {**self.silent, **self._unlisted}
        names = sorted({*listed, *known})
        omitted = len(names) - GROUPS_MAX
        del names[GROUPS_MAX:]
        chosen = {name: listed[name] for name in names if name in listed}
        chosen.update(await self._found(brokers, [name for name in names if name not in listed]))
        described = await self._described(chosen)
        committed = await self._committed({name: chosen[name] for name in described})
        partitions = {name: _partitions(described[name], committed[name]) for name in committed}
        wanted = sorted({each for found in partitions.values() for each in found})
        ends = await self._ends(wanted)
        groups = {
            name: GroupStatus(described[name], committed[name], {each: ends[each] for each in partitions[name]})
            for name in committed
        }
        return GroupReading(groups, self._unknown, unlisted, max(0, omitted))

    # ---- coordinators ------------------------------------------------------------------------------------------------

    async def _listed(self, brokers: Iterable[Endpoint]) -> dict[str, Endpoint]:
        """Return each listed group with the broker that lists it, which is its coordinator."""
        found: dict[str, Endpoint] = {}
        for broker, answer in (await self.ask(dict.fromkeys(brokers, list_request()))).items():
            if answer.error_code != ErrorCode.none:
                # For example, the broker still loads some of its groups.
                self._unlisted[broker.broker_id] = f"broker {broker.broker_id}: {error_name(answer.error_code)}"
            found.update({listing.group_id: broker for listing in listings_of(answer)})
        return found

    async def _found(self, brokers: Iterable[Endpoint], unlisted: list[str]) -> dict[str, Endpoint]:
        """Find the coordinators of groups that no broker lists.

        A group whose coordinator is not found is recorded as unknown.
        """
        if not unlisted:
            return {}
        answer = await self._first_answer(brokers, coordinators_request(KeyType.GROUP, unlisted))
        answers = {} if answer is None else coordinators_of(answer)
        found: dict[str, Endpoint] = {}
        for name in unlisted:
            row = answers.get(name)
            if isinstance(row, Endpoint):
                found[name] = row
            else:
                self._unknown[name] = UnknownGroup(None, "no broker answers" if row is None else row.message)
        return found

    async def _first_answer(self, brokers: Iterable[Endpoint], message: KafkaMessage) -> KafkaMessage | None:
        for broker in brokers:
            if answers := await self.ask({broker: message}):
                return answers[broker]
        return None

    # ---- groups ------------------------------------------------------------------------------------------------------

    async def _described(self, coordinators: Mapping[str, Endpoint]) -> dict[str, GroupInfo]:
        """Return the groups that exist."""
        answers = await self.ask({to: describe_request(names) for to, names in by_broker(coordinators).items()})
        rows = {name: row for to, answer in answers.items() for name, row in descriptions_of(answer, to).items()}
        return {name: row for name, row in self._answered(coordinators, rows).items() if row.state != DEAD}

    async def _committed(self, coordinators: Mapping[str, Endpoint]) -> dict[str, dict[TopicPartition, int]]:
        answers = await self.ask({to: offsets_request(names) for to, names in by_broker(coordinators).items()})
        rows = {name: row for answer in answers.values() for name, row in offsets_of(answer).items()}
        return self._answered(coordinators, rows)

    def _answered(
        self, coordinators: Mapping[str, Endpoint], rows: Mapping[str, T | KafkaRequestFailed]
    ) -> dict[str, T]:
        """Return the replies for the groups without an error. Record all other groups as unknown."""
        found: dict[str, T] = {}
        for name, coordinator in coordinators.items():
            row = rows.get(name)
            if row is None:
                reason = self.silent.get(
                    coordinator.broker_id, f"broker {coordinator.broker_id}: no complete answer in time"
                )
                self._unknown[name] = UnknownGroup(coordinator.broker_id, reason)
            elif isinstance(row, KafkaRequestFailed):
                self._unknown[name] = UnknownGroup(coordinator.broker_id, row.message)
            else:
                found[name] = row
        return found

    # ---- end offsets -------------------------------------------------------------------------------------------------

    async def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int | str]:
        """Return the end offset of each partition, or the reason why it is unknown."""
        ends: dict[TopicPartition, int | str] = dict.fromkeys(
            partitions, f"a reading contains {PARTITIONS_MAX} end offsets at most"
        )
        asked = partitions[:PARTITIONS_MAX]
        if not asked:
            return ends
        try:
            topics = sorted({each.topic for each in asked})
            brokers = (await self.client.metadata(topics, timeout_ms=self.left_ms())).brokers
        except KafkaUnavailable as reason:
            return {**ends, **dict.fromkeys(asked, str(reason))}
        leaders: dict[TopicPartition, Endpoint] = {}
        for each in asked:
            found = self.client.partition(each)
            leader = None if found is None else brokers.get(found.leader)
            if leader is None:
                ends[each] = "there is no such partition" if found is None else "the partition has no leader"
            else:
                leaders[each] = leader
        answers = await self.ask({to: log_offsets_request(names, LATEST) for to, names in by_broker(leaders).items()})
        for each, leader in leaders.items():
            ends[each] = self.silent.get(leader.broker_id, "no complete answer in time")
        for answer in answers.values():
            ends.update(_ends_of(answer))
        return ends


def _partitions(group: GroupInfo, committed: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    return sorted({*committed, *(each for member in group.members for each in member.partitions)})


def _ends_of(answer: KafkaMessage) -> dict[TopicPartition, int | str]:
    return {
        TopicPartition(str(topic.name), int(row.partition_index)): int(row.offset)
        if row.error_code == ErrorCode.none
        else error_name(row.error_code)
        for topic in answer.topics
        for row in topic.partitions
    }
