"""Reads partition state znodes in batches, and writes them with fencing and compare-and-set.

Each write is journalled. Sources: KafkaZkClient.getTopicPartitionStatesRaw, updateLeaderAndIsr,
createTopicPartitionStatesRaw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from zabka.controller.causes import CurrentCauses
from zabka.controller.context import ControllerContext
from zabka.controller.eligibility import Eligibility, trusted
from zabka.ensemble.client.service import Create, SetData
from zabka.ensemble.errors import ErrorCode
from zabka.journal.cause import Cause
from zabka.journal.events import IsrChanged, LeaderElected, TopicPartition
from zabka.kafka.ports import NO_LEADER, Emit
from zabka.kafka.zk.coordination import FencedWriter, Written
from zabka.kafka.zk.znodes import (
    LeaderAndIsr,
    decode_partition_state,
    encode_partition_state,
    partition_path,
    partition_state_path,
    partitions_path,
)


class Updates(NamedTuple):
    """The result of writing a batch of states.

    `written` contains the states with their new partition epochs, and `zxids` the transactions that wrote them.
    `conflicted` contains the partitions whose znode had another version (or, for a create, already existed), and
    `failed` those with any other error.
    """

    written: dict[TopicPartition, LeaderAndIsr]
    zxids: dict[TopicPartition, int]
    conflicted: list[TopicPartition]
    failed: dict[TopicPartition, ErrorCode]


class WrittenState(NamedTuple):
    """A partition's state, and the transaction that wrote it (its znode's mzxid)."""

    state: LeaderAndIsr
    zxid: int


class PartitionStore:
    """Access to the partition state znodes during one controller term.

    Every method can raise SessionExpired or ControllerMoved.
    """

    def __init__(
        self,
        writer: FencedWriter,
        context: ControllerContext,
        eligibility: Eligibility,
        emit: Emit,
        causes: CurrentCauses,
    ) -> None:
        self._writer = writer
        self._context = context
        self._eligibility = eligibility
        self._emit = emit
        self._causes = causes

    # -- reading

    async def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr | ErrorCode]:
        """Return each partition's state or error.

        The error is NO_NODE, or MARSHALLING_ERROR if the state is unreadable.
        """
        rows = await self.read_written(partitions)
        return {p: row if isinstance(row, ErrorCode) else row.state for p, row in rows.items()}

    async def read_written(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, WrittenState | ErrorCode]:
        """Return each partition's state and the transaction that wrote it, or the error, as `read` does.

        A state with a higher controller epoch than this term's was written by a later controller. In this case, check
        with the quorum whether this term has ended, and raise ControllerMoved if so. Kafka skips only the partition,
        and continues to send brokers its outdated view.
        """
        found = await self._read(partitions)
        if any(
            row.state.controller_epoch > self._writer.epoch for row in found.values() if isinstance(row, WrittenState)
        ):
            await self._writer.confirm()
        return found

    async def _read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, WrittenState | ErrorCode]:
        service = self._writer.zk.service
        outcomes = await self._writer.zk.batch([partial(service.get, partition_state_path(p)) for p in partitions])
        found: dict[TopicPartition, WrittenState | ErrorCode] = {}
        for partition, outcome in zip(partitions, outcomes, strict=True):
            if outcome.value is None:
                found[partition] = outcome.error
                continue
            data, stat = outcome.value
            state = decode_partition_state(data, stat.version)
            found[partition] = WrittenState(state, stat.mzxid) if state is not None else ErrorCode.MARSHALLING_ERROR
        return found

    # -- writing

    async def update(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> Updates:
        """Write states, conditional on the znode version, which is the partition epoch."""
        settled = await self.settled(states)
        ours = {p: state._replace(controller_epoch=self._writer.epoch) for p, state in settled.items()}
        ops = [
            SetData(partition_state_path(p), encode_partition_state(state), state.partition_epoch)
            for p, state in ours.items()
        ]
        written = await self._writer.write_together(ops)
        return await self._settle(ours, written, ErrorCode.BAD_VERSION)

    async def settled(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """Return the given states as a write would store them, with the eligible replicas."""
        return await self._eligibility.settle(states)

    async def confirmed(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """Return the states without replicas that are not eligible under the current configuration."""
        return await self._eligibility.confirm(states)

    async def create(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> Updates:
        """Create the state znodes of new partitions, and their parents."""
        topics = dict.fromkeys(partition.topic for partition in states)
        parents = [Create(partitions_path(topic), None) for topic in topics]
        await self._writer.write(parents)
        await self._writer.write_together([Create(partition_path(partition), None) for partition in states])
        ours = {p: state._replace(controller_epoch=self._writer.epoch) for p, state in states.items()}
        ops = [Create(partition_state_path(p), encode_partition_state(state)) for p, state in ours.items()]
        written = await self._writer.write_together(ops)
        # An update adds one to the expected version. A created znode has version 0, so its expected version is -1.
        return await self._settle(
            {p: state._replace(partition_epoch=-1) for p, state in ours.items()}, written, ErrorCode.NODE_EXISTS
        )

    async def _settle(
        self, states: Mapping[TopicPartition, LeaderAndIsr], written: Sequence[Written], conflict: ErrorCode
    ) -> Updates:
        updates = Updates({}, {}, [], {})
        doubtful: list[TopicPartition] = []
        for (partition, state), result in zip(states.items(), written, strict=True):
            if result.stat is not None:
                updates.written[partition] = state._replace(partition_epoch=result.stat.version)
                updates.zxids[partition] = result.stat.mzxid
            elif result.error is conflict and result.repeated:
                doubtful.append(partition)
            elif result.error is conflict:
                updates.conflicted.append(partition)
            else:
                updates.failed[partition] = result.error
        if doubtful:
            await self._recognise(doubtful, states, updates)
        return updates

    async def _recognise(
        self,
        doubtful: Sequence[TopicPartition],
        states: Mapping[TopicPartition, LeaderAndIsr],
        updates: Updates,
    ) -> None:
        """Find the writes that conflicted only because their own first transmission had succeeded, and count them as
        successful.
        """
        for partition, row in (await self._read(doubtful)).items():
            expected = states[partition]._replace(partition_epoch=states[partition].partition_epoch + 1)
            if not isinstance(row, ErrorCode) and row.state == expected:
                updates.written[partition] = expected
                updates.zxids[partition] = row.zxid
            else:
                updates.conflicted.append(partition)

    # -- reporting

    def announce_leader(
        self,
        partition: TopicPartition,
        old: LeaderAndIsr | None,
        new: LeaderAndIsr,
        zxid: int,
        cause: str,
        *,
        unclean: bool = False,
    ) -> None:
        """Journal a written state that has a new leader epoch. Also journal the ISR if it has changed."""
        left = [] if old is None else [broker for broker in old.isr if broker not in new.isr]
        missed = left if old is None or old.leader in (new.leader, NO_LEADER) else [old.leader, *left]
        alive = self._context.live_or_shutting_down_ids
        caused_by = self._causes.of(partition, missed, new.leader, alive)
        self._emit(
            LeaderElected(
                topic=partition.topic,
                partition=partition.partition,
                leader=new.leader,
                leader_epoch=new.leader_epoch,
                isr=list(new.isr),
                replicas=list(self._context.replicas(partition)),
                partition_epoch=new.partition_epoch,
                controller_epoch=new.controller_epoch,
                unclean=unclean,
                cause=cause,
                zxid=zxid,
                eligible=list(new.eligible),
                recovering=new.recovering,
                previous=NO_LEADER if old is None else old.leader,
                candidates=candidates(self._context, partition, old, new),
                caused_by=caused_by,
            )
        )
        if old is not None and old.isr != new.isr:
            self.announce_isr(partition, old, new, zxid, "controller", caused_by)

    def announce_isr(
        self,
        partition: TopicPartition,
        old: LeaderAndIsr,
        state: LeaderAndIsr,
        zxid: int,
        cause: str,
        caused_by: Cause,
    ) -> None:
        """Write an IsrChanged event to the journal, for a state that was written to ZooKeeper."""
        self._emit(
            IsrChanged(
                topic=partition.topic,
                partition=partition.partition,
                isr=list(state.isr),
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                cause=cause,
                controller_epoch=state.controller_epoch,
                zxid=zxid,
                eligible=list(state.eligible),
                left=[broker for broker in old.isr if broker not in state.isr],
                caused_by=caused_by,
            )
        )


def candidates(
    context: ControllerContext, partition: TopicPartition, old: LeaderAndIsr | None, new: LeaderAndIsr
) -> list[tuple[int, str]]:
    """Return for each replica why it was or was not elected as leader; see `LeaderElected.candidates`.

    The list is empty if this change is not an election: the leader stays, or the leader's replica was removed and an
    election will follow.
    """
    if new.leader == NO_LEADER or (old is not None and old.leader == new.leader):
        return []
    found: list[tuple[int, str]] = []
    in_sync = () if old is None else trusted(old)
    for broker_id in context.replicas(partition):
        if broker_id == new.leader:
            standing = "elected"
        elif broker_id in context.shutting_down:
            standing = "shutting_down"
        elif not context.is_replica_online(broker_id, partition):
            standing = "offline_directory" if context.is_live(broker_id) else "not_alive"
        elif old is None or broker_id in in_sync or broker_id in old.eligible:
            standing = "available"
        else:
            standing = "not_in_sync"
        found.append((broker_id, standing))
    return found
