"""Kafka's znodes as the ensemble has committed them: topics, partitions and brokers.

The state is built from the transactions, each at the moment at which the first peer applies it. The state of the
brokers is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from zabka.ensemble.jute import Record
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import CloseSessionTxn, CreateTxn, DeleteTxn, MultiTxn, SetDataTxn, Txn
from zabka.journal.events import TopicPartition
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import LeaderAndIsr, TopicAssignment

_TOPICS = f"{znodes.BROKER_TOPICS}/"
_BROKERS = f"{znodes.BROKER_IDS}/"
_DELETING = f"{znodes.DELETE_TOPICS}/"
_CONFIGS = "/config/"
_CHANGES = f"{znodes.CONFIG_CHANGES}/"


class StateWritten(NamedTuple):
    """A partition's state znode was written.  `before` is its previous state; None if the znode was created."""

    partition: TopicPartition
    before: LeaderAndIsr | None
    after: LeaderAndIsr


class TopicGone(NamedTuple):
    """A topic's znode was deleted."""

    topic: str


class Configured(NamedTuple):
    """The config overrides of an entity (topics/T, brokers/N) were written. They are empty if the znode was deleted."""

    entity: str
    overrides: Mapping[str, str]


class Registered(NamedTuple):
    """The registration of a broker was created or deleted."""

    broker: int
    is_there: bool


Change = StateWritten | TopicGone | Configured | Registered


class KafkaZnodes:
    """Topics with their assignments, partitions with their states, registered brokers, and topics to be deleted."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicAssignment] = {}
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.brokers: dict[int, int] = {}
        """Broker epoch of each registered broker, which is the zxid of its registration."""
        self.lives: dict[int, int] = {}
        """Last broker epoch of every broker that has ever registered, even if it is not registered now."""
        self.deleting: dict[str, None] = {}
        self.last_zxid = 0

    def committed(self, txn: Txn) -> Iterator[Change]:
        """Apply the next transaction, and yield its changes."""
        self.last_zxid = int(txn.zxid)
        yield from self._apply(txn.body)

    def _apply(self, body: Record) -> Iterator[Change]:
        if isinstance(body, MultiTxn):
            # A rejected multi still contains the operations before the rejected operation, but none of its operations
            # takes effect.
            refused = any(sub.type == OpCode.ERROR for sub in body.txns)
            for sub in () if refused else body.txns:
                yield from self._apply(sub.body())
        elif isinstance(body, CreateTxn | SetDataTxn):
            yield from self._write(body.path, body.data, body.version if isinstance(body, SetDataTxn) else 0)
        elif isinstance(body, DeleteTxn):
            yield from self._delete(body.path)
        elif isinstance(body, CloseSessionTxn):
            for path in body.paths:
                yield from self._delete(path)

    def _write(self, path: str, data: bytes | None, version: int) -> Iterator[Change]:
        if path.startswith(_TOPICS):
            topic, _, rest = path.removeprefix(_TOPICS).partition("/")
            parts = rest.split("/")
            if not rest:
                assignment = znodes.decode_topic(data)
                if assignment is not None:
                    self.topics[topic] = assignment
            elif len(parts) == 3 and parts[2] == "state":
                state = znodes.decode_partition_state(data, version)
                if state is not None:
                    partition = TopicPartition(topic, int(parts[1]))
                    before = self.states.get(partition)
                    self.states[partition] = state
                    yield StateWritten(partition, before, state)
        elif path.startswith(_BROKERS):
            broker = int(path.removeprefix(_BROKERS))
            self.brokers[broker] = self.lives[broker] = self.last_zxid
            yield Registered(broker, True)
        elif path.startswith(_DELETING):
            self.deleting[path.removeprefix(_DELETING)] = None
        elif path.startswith(_CONFIGS) and not path.startswith(_CHANGES):
            yield Configured(path.removeprefix(_CONFIGS), znodes.decode_config(data) or {})

    def _delete(self, path: str) -> Iterator[Change]:
        if path.startswith(_BROKERS):
            broker = int(path.removeprefix(_BROKERS))
            self.brokers.pop(broker, None)
            yield Registered(broker, False)
        elif path.startswith(_DELETING):
            self.deleting.pop(path.removeprefix(_DELETING), None)
        elif path.startswith(_CONFIGS) and not path.startswith(_CHANGES):
            yield Configured(path.removeprefix(_CONFIGS), {})
        elif path.startswith(_TOPICS):
            topic, _, rest = path.removeprefix(_TOPICS).partition("/")
            if not rest:
                self.topics.pop(topic, None)
                yield TopicGone(topic)
            elif rest.endswith("/state"):
                self.states.pop(TopicPartition(topic, int(rest.split("/")[1])), None)
