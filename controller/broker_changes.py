"""Handles brokers that start, fail, or restart as another process.

Source: KafkaController.processBrokerChange and the methods that it calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.controller.context import PartitionState, Replica, ReplicaState
from zabka.controller.eligibility import given_way
from zabka.controller.partition_state_machine import Refused
from zabka.controller.reassignments import resume_for_brokers
from zabka.controller.term import ControllerTerm
from zabka.journal.cause import registration_cause, transaction_cause
from zabka.journal.events import BrokerLivenessChanged, TopicPartition
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import LeaderAndIsr


async def process_broker_change(term: ControllerTerm, _: str) -> None:
    """Compare the registered brokers with the known ones.

    A higher broker epoch under the same id means that the broker bounced.
    """
    context = term.context
    current = await term.read_brokers()
    known = {broker_id: context.broker_epoch(broker_id) or 0 for broker_id in context.live_or_shutting_down_ids}
    new = [b for b in current if b not in known]
    dead = [b for b in known if b not in current]
    bounced = [b for b in current if b in known and current[b][1] > known[b]]
    if not (new or dead or bounced):
        return
    latest = max([context.broker_epoch_seen, *(current[b][1] for b in (*new, *bounced))])
    # Record the bounced brokers as handled only at the end: states that are written earlier must not claim that these
    # bounces were handled.
    context.broker_epoch_seen = min([latest, *(current[b][1] - 1 for b in bounced)])
    for broker_id in new:
        term.channels.add_broker(current[broker_id][0])
    for broker_id in bounced:
        term.channels.remove_broker(broker_id)
    for broker_id in bounced:
        term.channels.add_broker(current[broker_id][0])
    for broker_id in dead:
        # Remove the dead broker now. Kafka removes it later, and could still elect it if the bounce of another broker
        # requires an election.
        context.remove_broker(broker_id)
        term.channels.remove_broker(broker_id)
        term.signals.forget_watcher("BrokerModifications", str(broker_id))
    live = sorted(current)
    term.causes.lost.update((b, registration_cause(b, known[b])) for b in (*bounced, *dead))
    term.causes.returned.update((b, transaction_cause(current[b][1])) for b in (*new, *bounced))
    ended: list[tuple[int, str]] = [
        (broker_id, registration_cause(broker_id, known[broker_id])) for broker_id in (*bounced, *dead)
    ]
    term.causes.cause = term.emit(
        BrokerLivenessChanged(
            controller_epoch=context.epoch,
            live=live,
            added=new,
            bounced=bounced,
            removed=dead,
            ended=ended,
            caused_by=term.causes.cause,
        )
    )
    if new:
        for broker_id in new:
            context.add_broker(*current[broker_id])
        await _on_startup(term, new)
    for broker_id in bounced:
        context.remove_broker(broker_id)
    # Process the dead brokers before the brokers that restarted with an intact log, because the last member of an ISR
    # stays in it. So the last member is a broker with an intact log if there is one, otherwise a broker that is still
    # down. Kafka processes the bounced brokers first, so a dead broker stays in the ISR, namely the one with the
    # highest id.
    intact = [b for b in bounced if current[b][0].log_intact]
    for broker_ids in ([b for b in bounced if b not in intact], dead, intact):
        if broker_ids:
            await _on_failure(term, broker_ids)
    if bounced:
        for broker_id in bounced:
            context.add_broker(*current[broker_id])
        context.broker_epoch_seen = latest
        await _on_startup(term, bounced)


def journal_live_brokers(term: ControllerTerm, added: list[int]) -> None:
    """Journal the live brokers that a new controller found."""
    context = term.context
    term.emit(
        BrokerLivenessChanged(
            controller_epoch=context.epoch,
            live=context.live_or_shutting_down_ids,
            added=added,
            bounced=[],
            removed=[],
            caused_by=term.causes.cause,
        )
    )


async def process_broker_modifications(term: ControllerTerm, argument: str) -> None:
    """Handle a broker that changed its existing registration, for example its listeners."""
    service, context = term.zk.service, term.context
    broker_id = int(argument)
    watcher = term.signals.watcher("BrokerModifications", argument)
    outcome = await term.zk.attempt(lambda: service.get(znodes.broker_path(broker_id), watcher))
    old = context.broker(broker_id)
    if outcome.value is None or old is None:
        # The broker was removed, or is not known yet. The BrokerChange event handles both situations.
        return
    data, stat = outcome.value
    info = znodes.decode_broker(broker_id, data)
    if info is None:
        term.report("BrokerModifications", f"{znodes.broker_path(broker_id)} is not readable; left as it was")
    elif term.broker_epoch(stat) == context.broker_epoch(broker_id) and info != old:
        context.update_broker(info)
        term.channels.update_endpoint(info)
        term.send_update_metadata(context.live_or_shutting_down_ids, [])


async def _on_startup(term: ControllerTerm, broker_ids: Sequence[int]) -> None:
    """Update every broker's metadata, bring the replicas online, and continue the operations that waited for them.

    Source: onBrokerStartup.
    """
    context = term.context
    context.forget_offline_dirs(broker_ids)
    existing = [b for b in context.live_or_shutting_down_ids if b not in broker_ids]
    term.send_update_metadata(existing, [])
    term.send_update_metadata(broker_ids, sorted(context.leadership))
    await give_way(term, broker_ids)
    replicas = context.replicas_on(broker_ids)
    await term.replicas.handle(replicas, ReplicaState.ONLINE)
    await term.partitions.trigger_online()
    await resume_for_brokers(term, broker_ids)
    topics = dict.fromkeys(replica.partition.topic for replica in replicas)
    await term.deletion.resume_for(topic for topic in topics if context.is_being_deleted(topic))


async def _on_failure(term: ControllerTerm, broker_ids: Sequence[int]) -> None:
    """Handle brokers whose registrations were deleted (onBrokerFailure)."""
    term.context.forget_processes(broker_ids)
    await on_replicas_offline(term, term.context.replicas_on(broker_ids))


async def on_replicas_offline(term: ControllerTerm, replicas: Sequence[Replica]) -> None:
    """Elect new leaders, then remove the dead replicas from ISRs that still contain them (onReplicasBecomeOffline)."""
    context = term.context
    deleting = [r for r in replicas if context.needs_no_leader(r.partition)]
    staying = [r for r in replicas if not context.needs_no_leader(r.partition)]
    await term.partitions.handle(context.partitions_with_offline_leader(), PartitionState.OFFLINE)
    results = await term.partitions.trigger_online()
    await term.replicas.handle(staying, ReplicaState.OFFLINE)
    await term.deletion.fail(deleting)
    if not staying and all(isinstance(result, Refused) for result in results.values()):
        # No partition state has changed, so no request has informed brokers about the failed brokers yet.
        term.send_update_metadata(context.live_or_shutting_down_ids, [])


async def give_way(term: ControllerTerm, returned: Sequence[int]) -> None:
    """Remove returned brokers from leadership and eligibility in favour of eligible replicas.

    Writes a new state for every partition that has eligible replicas and a replica on one of these brokers. If a broker
    returns without reporting an intact log, the replicas that have every committed record take precedence. Kafka's
    ZooKeeper mode keeps such a broker in the ISR, whatever records it has lost (KIP-966). This controller does the same
    if no replica is recorded as eligible, because then there is no better replica.
    """
    context = term.context
    doubtful = [broker_id for broker_id in returned if not context.is_intact(broker_id)]
    remaining = [
        partition
        for partition, state in sorted(context.leadership.items())
        if state.eligible
        and any(b in doubtful for b in (*state.isr, *state.eligible))
        # A partition that needs no leader has none. If the broker has already deleted its replica, LeaderAndIsr would
        # make it create the replica again.
        and not context.needs_no_leader(partition)
    ]
    while remaining:
        read = await term.store.read(remaining)
        current = await term.store.confirmed({p: s for p, s in read.items() if isinstance(s, LeaderAndIsr)})
        changed = {
            partition: after._replace(leader_epoch=after.leader_epoch + 1)
            for partition, state in current.items()
            if (after := given_way(state, doubtful)) != state and state.controller_epoch <= context.epoch
        }
        updates = await term.store.update(changed)
        term.batch.new_batch()
        for partition, state in updates.written.items():
            _took_effect(term, partition, current[partition], state, updates.zxids[partition])
        term.batch.send()
        remaining = updates.conflicted


def _took_effect(
    term: ControllerTerm, partition: TopicPartition, old: LeaderAndIsr, new: LeaderAndIsr, zxid: int
) -> None:
    context = term.context
    context.leadership[partition] = new
    online = [b for b in context.replicas(partition) if context.is_replica_online(b, partition)]
    if new.leader not in online:
        context.partition_states[partition] = PartitionState.OFFLINE
    term.batch.add_leader_and_isr(online, partition, new, is_new=False)
    term.store.announce_leader(partition, old, new, zxid, "doubtful_return")
