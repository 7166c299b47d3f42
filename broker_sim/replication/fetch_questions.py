"""The fetcher's side of a fetch session, which sends only the partitions that changed (KIP-227).

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
    """The content of one Fetch request: partitions to send, partitions to remove, and the session's id and epoch."""

    session_id: int
    session_epoch: int
    rows: Mapping[TopicPartition, FetchPartition]
    forgotten: list[TopicPartition]


class FetchQuestions:
    """The fetch session with one leader.

    If the set of partitions changes, a new session begins. Otherwise a partition that was removed and added again would
    have outdated values in the session.
    """

    __slots__ = ("_epoch", "_naming", "_sent", "_session_id")

    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._naming: Hashable = None
        self._sent: dict[TopicPartition, FetchPartition] = {}

    def restart(self) -> None:
        """End the session. The next request contains all partitions and creates a new session."""
        self._epoch = INITIAL_EPOCH

    def next(self, requested: dict[TopicPartition, FetchPartition], naming: Hashable) -> Question:
        """Return the content of the next request for these partitions.

        `naming` states whether topics are identified by name or id; it never changes within a session.
        """
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
        """Process a response: the leader has either processed the last fetch or rejected the session."""
        if response.error_code != ErrorCode.none:
            self._session_id, self._epoch = _NO_SESSION, INITIAL_EPOCH
            return
        if self._epoch == INITIAL_EPOCH:
            self._session_id = response.session_id
            self._epoch = 1 if response.session_id != _NO_SESSION else INITIAL_EPOCH
        else:
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
