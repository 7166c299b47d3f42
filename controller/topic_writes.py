"""Writes to a topic's znode that preserve concurrent changes by administrators.

Kafka's controller overwrites the znode with its own view. Partitions that were added just before, and that the
controller does not know yet, are then lost (KafkaController.updateReplicaAssignmentForPartition).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from zabka.controller.term import ControllerTerm
from zabka.ensemble.client.service import SetData
from zabka.ensemble.errors import ErrorCode, error_for
from zabka.ensemble.records import Stat
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import TopicAssignment

_EMPTY = TopicAssignment(None, {})


class TopicTooLarge(Exception):
    """A topic's znode would become too large; nothing was written."""


async def amend_topic(
    term: ControllerTerm,
    topic: str,
    amended: Callable[[TopicAssignment], TopicAssignment],
    *,
    bytes_max: int | None = None,
) -> Stat | None:
    """Write a topic's znode, conditional on the version that was read.

    Return the new stat, or None if there is no such znode. `amended` receives the current content (without partitions
    if the content is not readable) and returns the content to write. It may be called more than once. Raises
    ControllerMoved, SessionExpired, ZooKeeperError, and TopicTooLarge if the znode would exceed `bytes_max` bytes.
    """
    stats = await amend_topics(term, [topic], lambda _, found: amended(found), bytes_max=bytes_max)
    return stats.get(topic)


async def amend_topics(
    term: ControllerTerm,
    topics: Sequence[str],
    amended: Callable[[str, TopicAssignment], TopicAssignment],
    *,
    bytes_max: int | None = None,
) -> dict[str, Stat]:
    """Write the znodes of many topics as `amend_topic` does, in a few round trips; omit topics without a znode."""
    service = term.zk.service
    stats: dict[str, Stat] = {}
    waiting = list(topics)
    while waiting:
        outcomes = await term.zk.batch([partial(service.get, znodes.topic_path(topic)) for topic in waiting])
        writes: dict[str, SetData] = {}
        for topic, outcome in zip(waiting, outcomes, strict=True):
            path = znodes.topic_path(topic)
            if outcome.value is not None:
                data, stat = outcome.value
                content = znodes.encode_topic(amended(topic, znodes.decode_topic(data) or _EMPTY))
                if bytes_max is not None and len(content) > bytes_max:
                    raise TopicTooLarge(f"{path} would need {len(content)} bytes, more than {bytes_max}")
                writes[topic] = SetData(path, content, stat.version)
            elif outcome.error is not ErrorCode.NO_NODE:
                raise error_for(outcome.error, path)
        waiting = []
        for topic, written in zip(writes, await term.writer.write(list(writes.values())), strict=True):
            if written.stat is not None:
                stats[topic] = written.stat
            elif written.error is ErrorCode.BAD_VERSION:
                waiting.append(topic)
            elif written.error is not ErrorCode.NO_NODE:
                raise error_for(written.error, znodes.topic_path(topic))
    return stats
