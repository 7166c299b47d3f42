"""Topics that are created, grow and are to be deleted.

Sources: KafkaController.processTopicChange, processPartitionModifications, processTopicDeletion.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.controller.context import PartitionState, ReplicaState
from zabka.controller.reign import Reign
from zabka.controller.topic_writes import amend_topic, amend_topics
from zabka.ensemble.client.service import Delete
from zabka.journal.cause import topic_cause
from zabka.journal.events import TopicCreated, TopicDeleted, TopicPartition
from zabka.kafka.topic_ids import random_topic_id
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import TopicAssignment


async def process_topic_change(reign: Reign, _: str) -> None:
    """Handle a changed list of topics: take on new topics, forget topics with a deleted znode."""
    context = reign.context
    names = await reign.read_topic_names()
    present = frozenset(names)
    left_out = [topic for topic in reign.unreadable_topics if topic in present]
    reign.unreadable_topics = dict.fromkeys(left_out)
    new = [topic for topic in names if not context.has_topic(topic)]
    gone = [topic for topic in context.topics if topic not in present]
    added = await add_topics(reign, new)
    if any(context.is_being_deleted(topic) for topic in gone):
        # Otherwise the request to delete it would apply to the next topic of that name, as in Kafka.
        reign.signals.put("TopicDeletion", "", reign.occasion.cause)
    for topic in gone:
        context.remove_topic(topic)
        reign.signals.forget_watcher("PartitionModifications", topic)
        reign.emit(TopicDeleted(topic, reign.occasion.cause))
    for topic in added:
        if topic not in left_out:
            tell_topic(reign, topic)
    await _on_new_partitions(reign, [p for topic in added for p in context.partitions_of(topic)])


def tell_topic(reign: Reign, topic: str) -> None:
    """Journal a topic that this controller takes on as new."""
    context = reign.context
    rows = {number: list(row.replicas) for number, row in sorted(context.topic_assignment(topic).items())}
    topic_id = context.topic_ids.get(topic, "")
    made = reign.emit(TopicCreated(topic, topic_id, rows, topic_cause(topic_id)))
    reign.occasion.about_topic(topic, made)


async def add_topics(reign: Reign, topics: Sequence[str]) -> dict[str, TopicAssignment]:
    """Read these topics and add them to the context; give a topic without an id one (processTopicIds)."""
    added = await reign.read_topics(topics)
    nameless = [topic for topic, assignment in added.items() if assignment.topic_id is None]

    def named(topic: str, found: TopicAssignment) -> TopicAssignment:
        # Keep partitions that were added since it was read.
        added[topic] = found._replace(topic_id=found.topic_id or random_topic_id(reign.runtime.random))
        return added[topic]

    written = await amend_topics(reign, nameless, named)
    for topic in nameless:
        if topic not in written:
            del added[topic]
    for topic, assignment in added.items():
        reign.context.add_topic(topic, assignment.topic_id)
        for number, row in assignment.partitions.items():
            reign.context.set_assignment(TopicPartition(topic, number), row)
            if row.is_being_reassigned:
                reign.context.reassigning[TopicPartition(topic, number)] = None
    return added


async def _on_new_partitions(reign: Reign, partitions: Sequence[TopicPartition]) -> None:
    """Bring new partitions and their replicas online, exactly in this order (onNewPartitionCreation)."""
    replicas = reign.context.replicas_of(partitions)
    await reign.partitions.handle(partitions, PartitionState.NEW)
    await reign.replicas.handle(replicas, ReplicaState.NEW)
    await reign.partitions.handle(partitions, PartitionState.ONLINE)
    await reign.replicas.handle(replicas, ReplicaState.ONLINE)


async def process_partition_modifications(reign: Reign, topic: str) -> None:
    """Handle a topic's changed znode: bring new partitions online, or revert them if the topic is being deleted.

    A topic id that is missing is written again. Tools older than Kafka 2.8 drop it when they add partitions by znode.
    The next controller would then create another id, and brokers reject replicas under a new id (KAFKA-14190).
    """
    context = reign.context
    if not context.has_topic(topic):
        if topic in reign.unreadable_topics:
            # The znode may have been repaired.
            await process_topic_change(reign, "")
        return
    found = (await reign.read_topics([topic])).get(topic)
    if found is None:
        return
    if found.topic_id is None:
        await _write_id_again(reign, topic)
    new = [
        TopicPartition(topic, number)
        for number in found.partitions
        if not context.has_partition(TopicPartition(topic, number))
    ]
    if not new:
        return
    if context.is_being_deleted(topic):
        topic_id, rows = context.topic_ids.get(topic), context.topic_assignment(topic)
        await amend_topic(reign, topic, lambda now: TopicAssignment(now.topic_id or topic_id, rows))
        return
    for partition in new:
        context.set_assignment(partition, found.partitions[partition.partition])
    await _on_new_partitions(reign, new)


async def _write_id_again(reign: Reign, topic: str) -> None:
    topic_id = reign.context.topic_ids.get(topic)
    if topic_id is not None:
        reign.report("PartitionModifications", f"{znodes.topic_path(topic)} has lost its topic id; written again")
        await amend_topic(reign, topic, lambda found: found._replace(topic_id=found.topic_id or topic_id))


async def watch_topic_deletions(reign: Reign) -> list[str]:
    """Return the topics in /admin/delete_topics, and leave a watch on the list."""
    return await reign.read_list(znodes.DELETE_TOPICS, "TopicDeletion")


async def process_topic_deletion(reign: Reign, _: str) -> None:
    """Queue topics for deletion; remove a request for an unknown topic at once."""
    context = reign.context
    listed = await watch_topic_deletions(reign)
    if not all(context.has_topic(topic) for topic in listed):
        # It may have been created just now: its event may still be waiting in the queue. Kafka drops the request.
        await process_topic_change(reign, "")
    unknown = [topic for topic in listed if not context.has_topic(topic)]
    known = [topic for topic in listed if context.has_topic(topic) and not context.is_being_deleted(topic)]
    refused = known if not reign.config.delete_topic_enable else []
    await reign.writer.write([Delete(znodes.delete_topic_path(topic)) for topic in [*unknown, *refused]])
    if known and not refused:
        moving = {partition.topic for partition in context.reassigning}
        await reign.deletion.enqueue(known, halted=[topic for topic in known if topic in moving])
