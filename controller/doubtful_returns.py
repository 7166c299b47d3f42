"""Brokers that come back without saying that their logs are intact: they give way to those that have everything.

Kafka's ZooKeeper mode takes a member of the ISR for what it was, whatever it has lost while it was away (KIP-966).
Where nobody is noted as eligible there is nobody better, and so does ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.controller.context import PartitionState
from zabka.controller.eligibility import given_way
from zabka.controller.reign import Reign
from zabka.journal.events import TopicPartition
from zabka.kafka.zk.znodes import LeaderAndIsr


async def give_way(reign: Reign, returned: Sequence[int]) -> None:
    """Write a new state for every partition with eligible replicas of which one of these brokers is a replica."""
    context = reign.context
    doubtful = [broker_id for broker_id in returned if not context.is_intact(broker_id)]
    remaining = [
        partition
        for partition, state in sorted(context.leadership.items())
        if state.eligible
        and any(b in doubtful for b in (*state.isr, *state.eligible))
        # Nobody leads there any more, and who has deleted its replica would begin another one upon the word.
        and not context.is_going(partition)
    ]
    while remaining:
        read = await reign.store.read(remaining)
        current = await reign.store.confirmed({p: s for p, s in read.items() if isinstance(s, LeaderAndIsr)})
        changed = {
            partition: after._replace(leader_epoch=after.leader_epoch + 1)
            for partition, state in current.items()
            if (after := given_way(state, doubtful)) != state and state.controller_epoch <= context.epoch
        }
        updates = await reign.store.update(changed)
        reign.batch.new_batch()
        for partition, state in updates.written.items():
            _took_effect(reign, partition, current[partition], state, updates.zxids[partition])
        reign.batch.send()
        remaining = updates.conflicted


def _took_effect(reign: Reign, partition: TopicPartition, old: LeaderAndIsr, new: LeaderAndIsr, zxid: int) -> None:
    context = reign.context
    context.leadership[partition] = new
    online = [b for b in context.replicas(partition) if context.is_replica_online(b, partition)]
    if new.leader not in online:
        context.partition_states[partition] = PartitionState.OFFLINE
    reign.batch.add_leader_and_isr(online, partition, new, is_new=False)
    reign.store.announce_leader(partition, old, new, zxid, "doubtful_return")
