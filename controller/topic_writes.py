"""Writes to a topic's znode, in which administrators write as well: nothing that one of them wrote meanwhile gets lost.

Kafka's controller writes what it knows over whatever is there: partitions that were added a moment before, and of which
it has not heard yet, are gone then (KafkaController.updateReplicaAssignmentForPartition).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from zabka.controller.reign import Reign
from zabka.ensemble.client.service import SetData
from zabka.ensemble.errors import ErrorCode, error_for
from zabka.ensemble.records import Stat
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import TopicAssignment

_EMPTY = TopicAssignment(None, {})


class TopicTooLarge(Exception):
    """A topic's znode would become too large; nothing was written."""


async def amend_topic(
    reign: Reign, topic: str, amended: Callable[[TopicAssignment], TopicAssignment], *, bytes_max: int | None = None
) -> Stat | None:
    """Write a topic's znode over the very version that was read; its stat then, None where there is no such znode.

    `amended` is given what is there, without partitions where that is not readable, and may be called again.  Raises
    ControllerMoved, SessionExpired, ZooKeeperError, and TopicTooLarge where it would have more than `bytes_max` bytes.
    """
    stats = await amend_topics(reign, [topic], lambda _, found: amended(found), bytes_max=bytes_max)
    return stats.get(topic)


async def amend_topics(
    reign: Reign,
    topics: Sequence[str],
    amended: Callable[[str, TopicAssignment], TopicAssignment],
    *,
    bytes_max: int | None = None,
) -> dict[str, Stat]:
    """The same for many topics at once, in a few round trips; those without a znode are left out."""
    service = reign.zk.service
    stats: dict[str, Stat] = {}
    waiting = list(topics)
    while waiting:
        outcomes = await reign.zk.batch([partial(service.get, znodes.topic_path(topic)) for topic in waiting])
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
        for topic, written in zip(writes, await reign.writer.write(list(writes.values())), strict=True):
            if written.stat is not None:
                stats[topic] = written.stat
            elif written.error is ErrorCode.BAD_VERSION:
                waiting.append(topic)
            elif written.error is not ErrorCode.NO_NODE:
                raise error_for(written.error, znodes.topic_path(topic))
    return stats
