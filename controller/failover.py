"""The steps of a newly elected controller, in this order (KafkaController.onControllerFailover)."""

from __future__ import annotations

from zabka.controller.broker_changes import tell_liveness
from zabka.controller.features import set_up_features
from zabka.controller.historical import Historical
from zabka.controller.leader_elections import elect_preferred_from_znode
from zabka.controller.notifications import ISR_CHANGES, LOG_DIR_EVENTS, delete_notifications, watch_notifications
from zabka.controller.partition_store import WrittenState
from zabka.controller.reassignments import initialize_reassignments
from zabka.controller.reign import Reign
from zabka.controller.topic_changes import add_topics, tell_topic, watch_topic_deletions
from zabka.controller.unseen_bounces import fence_bounced
from zabka.ensemble.errors import ErrorCode
from zabka.journal.events import ControllerPropagated, ControllerReady, TopicPartition


async def fail_over(reign: Reign) -> None:
    """Read the cluster, make the decisions that are pending, and begin to serve.

    Every list is watched before it is read, and brokers receive the live brokers before they receive their leaders
    (KAFKA-4443). Brokers that bounced unseen are fenced before any replica is made leader or follower, which Kafka does
    not do: see `unseen_bounces`.
    """
    runtime, context = reign.runtime, reign.context
    began_ms = runtime.now().mono_ms
    await set_up_features(reign)
    for each in (LOG_DIR_EVENTS, ISR_CHANGES):
        await delete_notifications(reign, await watch_notifications(reign, each))
    states = await _initialize_context(reign)
    queued = await watch_topic_deletions(reign)
    known = [topic for topic in queued if context.has_topic(topic)]
    if reign.config.delete_topic_enable:
        reign.deletion.init(known)
    read_ms = runtime.now().mono_ms
    reign.legacy.recall(context)
    introduced_first = Historical.LEADER_AND_ISR_FIRST not in reign.config.historical
    if introduced_first:
        reign.send_update_metadata(context.live_or_shutting_down_ids, [])
    await fence_bounced(reign, states)
    await reign.replicas.startup()
    await reign.partitions.startup()
    if not introduced_first:
        reign.send_update_metadata(context.live_or_shutting_down_ids, [])
    ready_ms = runtime.now().mono_ms
    reign.emit(ControllerReady(reign.broker_id, context.epoch, read_ms - began_ms, ready_ms - read_ms))
    _tell_when_propagated(reign, ready_ms)
    await initialize_reassignments(reign)
    await reign.deletion.resume()
    # The event's own processing removes requests to delete topics that do not exist or must not be deleted.
    if len(known) < len(queued) or not reign.config.delete_topic_enable:
        reign.signals.put("TopicDeletion", "", reign.occasion.cause)
    await elect_preferred_from_znode(reign)
    if reign.config.auto_leader_rebalance_enable:
        reign.schedule_rebalance(reign.config.first_rebalance_check_ms)


def _tell_when_propagated(reign: Reign, ready_ms: int) -> None:
    brokers = len(reign.context.live_or_shutting_down_ids)

    def propagated() -> None:
        took_ms = reign.runtime.now().mono_ms - ready_ms
        reign.emit(ControllerPropagated(reign.broker_id, reign.context.epoch, brokers, took_ms))

    reign.channels.once_answered(propagated)


async def _initialize_context(reign: Reign) -> dict[TopicPartition, WrittenState]:
    """Fill the context; return the partition states as they were found."""
    context = reign.context
    brokers = await reign.read_brokers()
    context.broker_epoch_seen = max((epoch for _, epoch in brokers.values()), default=-1)
    for info, broker_epoch in brokers.values():
        context.add_broker(info, broker_epoch)
    tell_liveness(reign, added=list(brokers))
    topics = await reign.read_topic_names()
    await add_topics(reign, topics)
    states: dict[TopicPartition, WrittenState] = {}
    for partition, row in (await reign.store.read_written(context.partitions)).items():
        if not isinstance(row, ErrorCode):
            states[partition] = row
            context.leadership[partition] = row.state
        elif row is not ErrorCode.NO_NODE:
            reign.report("Startup", f"the state of {partition} is not readable: {row.name}")
    for topic in context.topics:
        # Created while there was no controller: no controller has taken it on yet.
        if not any(partition in context.leadership for partition in context.partitions_of(topic)):
            tell_topic(reign, topic)
    reign.channels.startup(info for info, _ in brokers.values())
    return states
