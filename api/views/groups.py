"""Consumer groups, as their coordinators describe them over Kafka's protocol.

The view keeps the last answer of each coordinator. A group whose coordinator no longer answers is unknown, with the age
of that answer; its members and offsets are not shown as current.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from itertools import islice
from typing import NamedTuple

from zabka.api.http.problems import Problem
from zabka.api.views.models import Group, GroupDetails, GroupMember, GroupOffset, Groups, SilentBroker
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import TopicPartition
from zabka.kafka.client.group_reading import PARTITIONS_MAX, GroupReading, GroupStatus, UnknownGroup

ReadGroups = Callable[[Collection[str]], Awaitable[GroupReading]]
"""Function that reads the state of all groups from the brokers.

It also reads the groups passed to it, even if no broker lists them now.
"""
CACHE_S = 1.0
MEMBERS_MAX = 1_000
"""Maximum number of members in a response."""


class _Answer(NamedTuple):
    """A coordinator's last answer about a group, and the time of that answer."""

    status: GroupStatus
    at_s: float


class GroupsView:
    """The consumer groups of the cluster. Requests within CACHE_S, and concurrent requests, share one reading."""

    def __init__(self, read: ReadGroups, state: Callable[[], ClusterState]) -> None:
        self._read_groups = read
        self._state = state
        self._reading = GroupReading()
        self._read_s: float | None = None
        self._answers: dict[str, _Answer] = {}
        self._under_way: asyncio.Task[None] | None = None

    async def all(self) -> Groups:
        """Return every group, without its members and offsets."""
        reading = await self._read(CACHE_S)
        found = [self._known(name, status) for name, status in reading.groups.items()]
        found += [self._unknown(name, why) for name, why in reading.unknown.items()]
        return Groups(
            groups=sorted(found, key=lambda group: group.id),
            silent_brokers=[SilentBroker(broker_id=id, reason=reason) for id, reason in sorted(reading.silent.items())],
            omitted=reading.omitted,
            problem=reading.problem or None,
        )

    async def one(self, name: str) -> GroupDetails:
        """Return one group. Raises Problem: 404 if there is no such group, 503 if a silent broker may have it."""
        reading = await self._read(CACHE_S)
        if name not in reading.groups and name not in reading.unknown:
            # The group may be newer than the last reading.
            reading = await self._read(0)
        if status := reading.groups.get(name):
            return _details(self._known(name, status), status)
        if why := reading.unknown.get(name):
            return GroupDetails(**dict(self._unknown(name, why)), members=None, offsets=None)
        if reading.problem or reading.silent:
            reason = reading.problem or "; ".join(reading.silent.values())
            raise Problem(503, f"cannot find out whether there is a group {name}: {reason}")
        raise Problem(404, f"there is no group {name}")

    async def _read(self, at_most_old_s: float) -> GroupReading:
        if self._read_s is None or time.monotonic() - self._read_s >= at_most_old_s:
            if self._under_way is None:
                self._under_way = asyncio.create_task(self._look())
                self._under_way.add_done_callback(self._looked)
            await asyncio.shield(self._under_way)
        return self._reading

    def _looked(self, _: asyncio.Task[None]) -> None:
        self._under_way = None

    async def _look(self) -> None:
        began_s = time.monotonic()
        reading = await self._read_groups({*self._answers, *self._state().groups})
        answers = {name: _Answer(status, began_s) for name, status in reading.groups.items()}
        kept = {name: self._answers[name] for name in reading.unknown if name in self._answers}
        self._reading, self._read_s, self._answers = reading, began_s, {**kept, **answers}

    # ---- one group ---------------------------------------------------------------------------------------------------

    def _known(self, name: str, status: GroupStatus) -> Group:
        info = status.info
        reported = self._state().groups.get(name)
        # DescribeGroups does not contain the generation, so it is known only if the coordinator writes a journal.
        generation = reported.generation_id if reported and reported.broker_id == info.coordinator.broker_id else None
        return Group(
            id=name,
            state=info.state,
            unknown=None,
            last_state=None,
            age_ms=self._age_ms(name),
            coordinator=info.coordinator.broker_id,
            protocol_type=info.protocol_type or None,
            protocol=info.assignor or None,
            generation=generation,
            member_count=len(info.members),
            partition_count=len(status.ends),
            lag=_total_lag(status),
        )

    def _unknown(self, name: str, why: UnknownGroup) -> Group:
        answer, reported = self._answers.get(name), self._state().groups.get(name)
        coordinator = why.coordinator
        if coordinator is None and answer:
            coordinator = answer.status.info.coordinator.broker_id
        elif coordinator is None and reported:
            coordinator = reported.broker_id
        last_state = answer.status.info.state if answer else reported.state if reported else None
        return Group(
            id=name,
            state="Unknown",
            unknown=why.reason,
            last_state=last_state,
            age_ms=self._age_ms(name),
            coordinator=coordinator,
            protocol_type=None,
            protocol=None,
            generation=None,
            member_count=None,
            partition_count=None,
            lag=None,
        )

    def _age_ms(self, name: str) -> int | None:
        answer = self._answers.get(name)
        return None if answer is None else int((time.monotonic() - answer.at_s) * 1000)


def _total_lag(status: GroupStatus) -> int | None:
    """Return the number of records after the group's committed offsets, or None if an end offset is unknown."""
    total = 0
    for partition, offset in status.committed.items():
        end = status.ends[partition]
        if isinstance(end, str):
            return None
        total += max(0, end - offset)
    return total


def _details(group: Group, status: GroupStatus) -> GroupDetails:
    members = [
        GroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            partitions=[str(partition) for partition in member.partitions],
        )
        for member in status.info.members[:MEMBERS_MAX]
    ]
    owners = {partition: member.member_id for member in status.info.members for partition in member.partitions}
    offsets = [
        _position(partition, status.committed.get(partition), end, owners.get(partition))
        for partition, end in islice(status.ends.items(), PARTITIONS_MAX)
    ]
    return GroupDetails(**dict(group), members=members, offsets=offsets)


def _position(partition: TopicPartition, committed: int | None, end: int | str, member_id: str | None) -> GroupOffset:
    return GroupOffset(
        topic=partition.topic,
        partition=partition.partition,
        committed=committed,
        end=end if isinstance(end, int) else None,
        lag=max(0, end - committed) if isinstance(end, int) and committed is not None else None,
        unknown=end if isinstance(end, str) else None,
        member_id=member_id,
    )
