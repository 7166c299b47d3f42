"""Steps of a newly elected controller, in order (KafkaController.onControllerFailover)."""

from __future__ import annotations

from zabka.controller.broker_changes import journal_live_brokers
from zabka.controller.features import set_up_features
from zabka.controller.historical import Historical
from zabka.controller.leader_elections import elect_preferred_from_znode
from zabka.controller.notifications import ISR_CHANGES, LOG_DIR_EVENTS, delete_notifications, watch_notifications
from zabka.controller.partition_store import WrittenState
from zabka.controller.reassignments import initialize_reassignments
from zabka.controller.term import ControllerTerm
from zabka.controller.topic_changes import add_topics, journal_topic, watch_topic_deletions
from zabka.controller.unseen_bounces import fence_bounced
from zabka.ensemble.errors import ErrorCode
from zabka.journal.events import ControllerPropagated, ControllerReady, TopicPartition


async def fail_over(term: ControllerTerm) -> None:
    """Read the cluster's state, make the pending decisions, and start to process requests.

    Every list is watched before it is read. Each broker receives the list of live brokers before it receives its
    partitions' leaders (KAFKA-4443). Brokers that bounced while there was no controller are fenced before any replica
    is made leader or follower; Kafka does not do this (see `unseen_bounces`).
    """
    runtime, context = term.runtime, term.context
    began_ms = runtime.now().mono_ms
    await set_up_features(term)
    for each in (LOG_DIR_EVENTS, ISR_CHANGES):
        await delete_notifications(term, await watch_notifications(term, each))
    states = await _initialize_context(term)
    queued = await watch_topic_deletions(term)
    known = [topic for topic in queued if context.has_topic(topic)]
    if term.config.delete_topic_enable:
        term.deletion.init(known)
    read_ms = runtime.now().mono_ms
    term.legacy.recall(context)
    introduced_first = Historical.LEADER_AND_ISR_FIRST not in term.config.historical
    if introduced_first:
        term.send_update_metadata(context.live_or_shutting_down_ids, [])
    await fence_bounced(term, states)
    await term.replicas.startup()
    await term.partitions.startup()
    if not introduced_first:
        term.send_update_metadata(context.live_or_shutting_down_ids, [])
    ready_ms = runtime.now().mono_ms
    term.emit(ControllerReady(term.broker_id, context.epoch, read_ms - began_ms, ready_ms - read_ms))
    _journal_when_propagated(term, ready_ms)
    await initialize_reassignments(term)
    await term.deletion.resume()
    # TopicDeletion itself removes deletion requests that concern unknown topics or that the configuration forbids.
    if len(known) < len(queued) or not term.config.delete_topic_enable:
        term.signals.put("TopicDeletion", "", term.causes.cause)
    await elect_preferred_from_znode(term)
    if term.config.auto_leader_rebalance_enable:
        term.schedule_rebalance(term.config.first_rebalance_check_ms)


def _journal_when_propagated(term: ControllerTerm, ready_ms: int) -> None:
    brokers = len(term.context.live_or_shutting_down_ids)

    def propagated() -> None:
        took_ms = term.runtime.now().mono_ms - ready_ms
        term.emit(ControllerPropagated(term.broker_id, term.context.epoch, brokers, took_ms))

    term.channels.once_answered(propagated)


async def _initialize_context(term: ControllerTerm) -> dict[TopicPartition, WrittenState]:
    """Fill the context from ZooKeeper. Return the partition states that were found."""
    context = term.context
    brokers = await term.read_brokers()
    context.broker_epoch_seen = max((epoch for _, epoch in brokers.values()), default=-1)
    for info, broker_epoch in brokers.values():
        context.add_broker(info, broker_epoch)
    journal_live_brokers(term, added=list(brokers))
    topics = await term.read_topic_names()
    await add_topics(term, topics)
    states: dict[TopicPartition, WrittenState] = {}
    for partition, row in (await term.store.read_written(context.partitions)).items():
        if not isinstance(row, ErrorCode):
            states[partition] = row
            context.leadership[partition] = row.state
        elif row is not ErrorCode.NO_NODE:
            term.report("Startup", f"the state of {partition} is not readable: {row.name}")
    for topic in context.topics:
        # If no partition of a topic has a state, the topic was created while there was no controller, so journal it as
        # new.
        if not any(partition in context.leadership for partition in context.partitions_of(topic)):
            journal_topic(term, topic)
    term.channels.startup(info for info, _ in brokers.values())
    return states
