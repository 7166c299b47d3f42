"""Writes to a topic's znode, in which administrators write as well: nothing that one of them wrote meanwhile gets lost.

Kafka's controller writes what it knows over whatever is there: partitions that were added a moment before, and of which
it has not heard yet, are gone then (KafkaController.updateReplicaAssignmentForPartition).
"""

from __future__ import annotations

from collections.abc import Callable

from controller.reign import Reign
from ensemble.client.service import SetData
from ensemble.errors import ErrorCode, error_for
from ensemble.records import Stat
from kafka_protocol.zk import znodes
from kafka_protocol.zk.znodes import TopicAssignment

_EMPTY = TopicAssignment(None, {})


async def amend_topic(reign: Reign, topic: str, amended: Callable[[TopicAssignment], TopicAssignment]) -> Stat | None:
    """Write a topic's znode over the very version that was read; its stat then, None where there is no such znode.

    `amended` is given what is there, without partitions where that is not readable, and may be called again.  Raises
    ControllerMoved, SessionExpired, and ZooKeeperError.
    """
    service, path = reign.zk.service, znodes.topic_path(topic)
    while True:
        outcome = await reign.zk.attempt(lambda: service.get(path))
        error = outcome.error
        if outcome.value is not None:
            data, stat = outcome.value
            content = znodes.encode_topic(amended(znodes.decode_topic(data) or _EMPTY))
            [written] = await reign.writer.write([SetData(path, content, stat.version)])
            if written.stat is not None:
                return written.stat
            error = written.error
        if error is ErrorCode.NO_NODE:
            return None
        if error is not ErrorCode.BAD_VERSION:
            raise error_for(error, path)
