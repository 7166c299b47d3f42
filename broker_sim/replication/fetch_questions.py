"""The fetcher's side of a fetch session: send only the partitions that changed (KIP-227).

Source: Kafka's FetchSessionHandler. The leader's side is `zabka.broker_sim.replication.fetch_session`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.journal.events import TopicPartition
from zabka.kafka.wire.data_messages import FetchPartition, FetchResponse

INITIAL_EPOCH = 0
"""The session epoch of a fetch that requests a new session and removes no partition."""
_NO_SESSION = 0
_EPOCH_MAX = 2**31 - 1


class Question(NamedTuple):
    """One fetch: the rows to send, the partitions to remove from the session, and the session's id and epoch."""

    session_id: int
    session_epoch: int
    rows: Mapping[TopicPartition, FetchPartition]
    forgotten: list[TopicPartition]


class FetchQuestions:
    """The session with one leader.

    A new session begins if the set of partitions changes, because for a partition that was added again, all values must
    be sent again.
    """

    __slots__ = ("_epoch", "_naming", "_sent", "_session_id")

    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._naming: Hashable = None
        self._sent: dict[TopicPartition, FetchPartition] = {}

    def restart(self) -> None:
        """End the session. The next fetch contains all partitions and requests a new session."""
        self._epoch = INITIAL_EPOCH

    def next(self, requested: dict[TopicPartition, FetchPartition], naming: Hashable) -> Question:
        """Return the next fetch for these partitions. A session never changes its `naming` of topics."""
        if self._epoch == INITIAL_EPOCH or naming != self._naming:
            self._epoch = INITIAL_EPOCH
            self._naming = naming
            self._sent = requested
            return Question(self._session_id, INITIAL_EPOCH, requested, [])
        sent = self._sent
        rows = {key: row for key, row in requested.items() if sent.get(key) is not row}
        forgotten = [key for key in sent if key not in requested]
        self._sent = requested
        return Question(self._session_id, self._epoch, rows, forgotten)

    def answered(self, response: FetchResponse) -> None:
        """Handle a response: the leader has processed the last fetch, or rejected the session."""
        if response.error_code != ErrorCode.none:
            self._session_id, self._epoch = _NO_SESSION, INITIAL_EPOCH
            return
        if self._epoch == INITIAL_EPOCH:
            self._session_id = response.session_id
            self._epoch = 1 if response.session_id != _NO_SESSION else INITIAL_EPOCH
        else:
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
