"""Detects, at failover, brokers that bounced while there was no controller, by comparing zxids.

Suppose that a live broker's registration (its znode's czxid, the broker epoch) is newer than the last write of a
partition's state (that znode's mzxid). Then the broker has died and restarted since, and no controller noticed. It may
have lost records that it had not flushed. Therefore it must not count as in sync like the replicas that stayed, nor
lead in its former leader epoch: logs could then diverge permanently within one epoch.

This deviates from Kafka's ZooKeeper mode. There, the new controller finds such a broker live, in the ISR and leader,
and sends it the same leader epoch again. This controller acts as it does after a bounce during its term
(KafkaController.processBrokerChange): it prefers the other replicas and raises the leader epoch by one, in one write.
One kind of bounce is not visible in these zxids: the previous controller wrote the state again before it noticed the
bounce, and died. This is detected only if the state contains an eligible replica, because it then also records which
registrations that controller had handled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zabka.controller.context import ControllerContext
from zabka.controller.election import leader_after_bounce
from zabka.controller.eligibility import given_way, not_eligible
from zabka.controller.partition_store import Updates, WrittenState
from zabka.controller.term import ControllerTerm
from zabka.ensemble.errors import ErrorCode
from zabka.journal.events import TopicPartition
from zabka.kafka.zk.znodes import LeaderAndIsr


class _Fenced(NamedTuple):
    """A partition's new state, and the in-sync replicas that may have lost records because they bounced."""

    state: LeaderAndIsr
    doubtful: list[int]


async def fence_bounced(term: ControllerTerm, states: Mapping[TopicPartition, WrittenState]) -> None:
    """Write a new state for every partition whose ISR contains a bounced broker. Brokers are not notified yet.

    `states` are the states that this controller read at failover, after it had read the brokers.
    """
    found: dict[TopicPartition, WrittenState] = dict(states)
    while True:
        confirmed = await term.store.confirmed({partition: row.state for partition, row in found.items()})
        found = {partition: WrittenState(confirmed[partition], row.zxid) for partition, row in found.items()}
        fenced = _fenced(term.context, found)
        if not fenced:
            return
        settled = await term.store.settled({partition: row.state for partition, row in fenced.items()})
        # If the configuration allows it, a replica that has just left the ISR can be elected, because it has records
        # that the bounced replicas may have lost.
        updates = await term.store.update({p: given_way(state, fenced[p].doubtful) for p, state in settled.items()})
        _took_effect(term, found, updates)
        found = {}
        for partition, row in (await term.store.read_written(updates.conflicted)).items():
            if not isinstance(row, ErrorCode):
                term.context.leadership[partition] = row.state
                found[partition] = row


def _fenced(context: ControllerContext, states: Mapping[TopicPartition, WrittenState]) -> dict[TopicPartition, _Fenced]:
    fenced: dict[TopicPartition, _Fenced] = {}
    for partition, (state, zxid) in states.items():
        live = [broker_id for broker_id in (*state.isr, *state.eligible) if context.is_live(broker_id)]
        seen = state.broker_epoch_seen if state.eligible else zxid
        bounced = [broker_id for broker_id in live if (context.broker_epoch(broker_id) or 0) > seen]
        # A later controller has written this state, so this controller term has ended. Its next fenced write will fail.
        if bounced and state.controller_epoch <= context.epoch:
            intact = [b for b in bounced if context.is_intact(b)]
            doubtful = [b for b in bounced if b not in intact]
            after = leader_after_bounce(state, context.replicas(partition), live, bounced, intact)
            fenced[partition] = _Fenced(not_eligible(after, doubtful), doubtful)
    return fenced


def _took_effect(term: ControllerTerm, found: Mapping[TopicPartition, WrittenState], updates: Updates) -> None:
    for partition, state in updates.written.items():
        term.context.leadership[partition] = state
        term.store.announce_leader(partition, found[partition].state, state, updates.zxids[partition], "bounced")
    for partition, error in updates.failed.items():
        # Drop the partition's state, so that no broker receives the old leader epoch.
        term.context.leadership.pop(partition, None)
        if error is not ErrorCode.NO_NODE:
            term.report("Startup", f"the state of {partition} could not be written: {error.name}")
