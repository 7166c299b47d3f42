"""Handles topics that are created, that get more partitions, or that are to be deleted.

Sources: KafkaController.processTopicChange, processPartitionModifications, processTopicDeletion.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.controller.context import PartitionState, ReplicaState
from zabka.controller.term import ControllerTerm
from zabka.controller.topic_writes import amend_topic, amend_topics
from zabka.ensemble.client.service import Delete
from zabka.journal.cause import topic_cause
from zabka.journal.events import TopicCreated, TopicDeleted, TopicPartition
from zabka.kafka.topic_ids import random_topic_id
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import TopicAssignment


async def process_topic_change(term: ControllerTerm, _: str) -> None:
    """Handle a change of the list of topics: add new topics, and remove topics whose znode was deleted."""
    context = term.context
    names = await term.read_topic_names()
    present = frozenset(names)
    left_out = [topic for topic in term.unreadable_topics if topic in present]
    term.unreadable_topics = dict.fromkeys(left_out)
    new = [topic for topic in names if not context.has_topic(topic)]
    gone = [topic for topic in context.topics if topic not in present]
    added = await add_topics(term, new)
    if any(context.is_being_deleted(topic) for topic in gone):
        # Remove the entry in /admin/delete_topics. Otherwise it would apply to the next topic of that name, as in
        # Kafka.
        term.signals.put("TopicDeletion", "", term.causes.cause)
    for topic in gone:
        context.remove_topic(topic)
        term.signals.forget_watcher("PartitionModifications", topic)
        term.emit(TopicDeleted(topic, term.causes.cause))
    for topic in added:
        if topic not in left_out:
            journal_topic(term, topic)
    await _on_new_partitions(term, [p for topic in added for p in context.partitions_of(topic)])


def journal_topic(term: ControllerTerm, topic: str) -> None:
    """Journal a topic that this controller adds as new."""
    context = term.context
    rows = {number: list(row.replicas) for number, row in sorted(context.topic_assignment(topic).items())}
    topic_id = context.topic_ids.get(topic, "")
    made = term.emit(TopicCreated(topic, topic_id, rows, topic_cause(topic_id)))
    term.causes.about_topic(topic, made)


async def add_topics(term: ControllerTerm, topics: Sequence[str]) -> dict[str, TopicAssignment]:
    """Read these topics and add them to the context. Assign an id to a topic that has none (processTopicIds)."""
    added = await term.read_topics(topics)
    nameless = [topic for topic, assignment in added.items() if assignment.topic_id is None]

    def named(topic: str, found: TopicAssignment) -> TopicAssignment:
        # Add the id to the assignment that is read now, because partitions may have been added since the first read.
        added[topic] = found._replace(topic_id=found.topic_id or random_topic_id(term.runtime.random))
        return added[topic]

    written = await amend_topics(term, nameless, named)
    for topic in nameless:
        if topic not in written:
            del added[topic]
    for topic, assignment in added.items():
        term.context.add_topic(topic, assignment.topic_id)
        for number, row in assignment.partitions.items():
            term.context.set_assignment(TopicPartition(topic, number), row)
            if row.is_being_reassigned:
                term.context.reassigning[TopicPartition(topic, number)] = None
    return added


async def _on_new_partitions(term: ControllerTerm, partitions: Sequence[TopicPartition]) -> None:
    """Bring new partitions and their replicas online, in the order of Kafka's onNewPartitionCreation."""
    replicas = term.context.replicas_of(partitions)
    await term.partitions.handle(partitions, PartitionState.NEW)
    await term.replicas.handle(replicas, ReplicaState.NEW)
    await term.partitions.handle(partitions, PartitionState.ONLINE)
    await term.replicas.handle(replicas, ReplicaState.ONLINE)


async def process_partition_modifications(term: ControllerTerm, topic: str) -> None:
    """Handle a change of a topic's znode: bring new partitions online, or remove them if the topic is being deleted.

    If the topic id is missing, it is written again. Tools older than Kafka 2.8 drop it when they add partitions by
    znode. The next controller would then create another id, and brokers reject replicas under a new id (KAFKA-14190).
    """
    context = term.context
    if not context.has_topic(topic):
        if topic in term.unreadable_topics:
            # The unreadable znode may have been repaired, so read the topic again.
            await process_topic_change(term, "")
        return
    found = (await term.read_topics([topic])).get(topic)
    if found is None:
        return
    if found.topic_id is None:
        await _write_id_again(term, topic)
    new = [
        TopicPartition(topic, number)
        for number in found.partitions
        if not context.has_partition(TopicPartition(topic, number))
    ]
    if not new:
        return
    if context.is_being_deleted(topic):
        topic_id, rows = context.topic_ids.get(topic), context.topic_assignment(topic)
        await amend_topic(term, topic, lambda now: TopicAssignment(now.topic_id or topic_id, rows))
        return
    for partition in new:
        context.set_assignment(partition, found.partitions[partition.partition])
    await _on_new_partitions(term, new)


async def _write_id_again(term: ControllerTerm, topic: str) -> None:
    topic_id = term.context.topic_ids.get(topic)
    if topic_id is not None:
        term.report("PartitionModifications", f"{znodes.topic_path(topic)} has lost its topic id; written again")
        await amend_topic(term, topic, lambda found: found._replace(topic_id=found.topic_id or topic_id))


async def watch_topic_deletions(term: ControllerTerm) -> list[str]:
    """Return the topics in /admin/delete_topics, and set a watch on that list."""
    return await term.read_list(znodes.DELETE_TOPICS, "TopicDeletion")


async def process_topic_deletion(term: ControllerTerm, _: str) -> None:
    """Queue the topics in /admin/delete_topics for deletion; remove entries of unknown topics at once."""
    context = term.context
    listed = await watch_topic_deletions(term)
    if not all(context.has_topic(topic) for topic in listed):
        # The topic may be so new that its creation event is still queued, so read the topics first. Kafka drops the
        # deletion request of such a topic.
        await process_topic_change(term, "")
    unknown = [topic for topic in listed if not context.has_topic(topic)]
    known = [topic for topic in listed if context.has_topic(topic) and not context.is_being_deleted(topic)]
    refused = known if not term.config.delete_topic_enable else []
    await term.writer.write([Delete(znodes.delete_topic_path(topic)) for topic in [*unknown, *refused]])
    if known and not refused:
        moving = {partition.topic for partition in context.reassigning}
        await term.deletion.enqueue(known, halted=[topic for topic in known if topic in moving])
