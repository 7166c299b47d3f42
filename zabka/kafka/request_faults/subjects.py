"""Parts of a Kafka request that rules match: its partitions, groups and transactional ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from zabka.ensemble.request_fault import ANY, RequestFault, matches_text
from zabka.kafka.message_names import api_name
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.request_faults.api_errors import error_since
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.kafka_schema import ApiKey, KafkaUuid

APIS: dict[str, ApiKey] = {api_name(api): api for api in SUPPORTED}
"""APIs that brokers support, by name."""
NO_PARTITION = -1
GROUP_KEY, TRANSACTION_KEY = 0, 1
"""Key types in FindCoordinator requests."""

OWN_CLIENTS = re.compile(r"broker-[0-9]{1,10}|api-admin")
"""Matches the client ids of brokers, and of the API process that runs the dashboard."""

WITH_PARTITIONS = frozenset(
    {
        ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH,
        ApiKey.DELETE_RECORDS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
    }
)  # fmt: skip
WITH_TOPICS = WITH_PARTITIONS | {ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS}
WITH_GROUPS = frozenset(
    {
        ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE,
    }
)  # fmt: skip
WITH_TRANSACTIONS = frozenset(
    {
        ApiKey.PRODUCE, ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT,
    }
)  # fmt: skip
MATCHES = {"topic": WITH_TOPICS, "partition": WITH_PARTITIONS, "group": WITH_GROUPS,
           "transactional_id": WITH_TRANSACTIONS}  # fmt: skip
"""For each field of a rule, the APIs whose requests have such a field."""

TopicName = Callable[[KafkaUuid], str | None]
"""Function that returns the name of the topic with a given id, or None if the id is unknown."""


class Subject(NamedTuple):
    """Parts of a request that rules match, in addition to its API and version.

    `partitions` are pairs of topic and partition, with `NO_PARTITION` for a whole topic; None for all topics
    (Metadata).
    """

    partitions: tuple[tuple[str, int], ...] | None
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]


def may_match(
    rule: RequestFault, api: ApiKey, version: int, client_id: str, listener: str, principal: str = "User:ANONYMOUS"
) -> bool:
    """Return whether a rule can select requests of this API, version, client, listener and principal."""
    if rule.api != ANY and APIS.get(rule.api) is not api:
        return False
    if not rule.min_version <= version <= rule.max_version or (rule.error and version < error_since(api, rule.error)):
        return False
    if rule.client_id:
        if not matches_text(rule.client_id, client_id):
            return False
    elif OWN_CLIENTS.fullmatch(client_id):
        return False
    return matches_text(rule.listener, listener) and matches_text(rule.principal, principal)


def selects(rule: RequestFault, subject: Subject) -> bool:
    """Return whether a rule selects a request with this subject."""
    if (
        rule.topic
        and subject.partitions is not None
        and not any(selects_partition(rule, *p) for p in subject.partitions)
    ):
        return False
    if rule.group and not any(matches_text(rule.group, group) for group in subject.groups):
        return False
    return not rule.transactional_id or any(
        matches_text(rule.transactional_id, each) for each in subject.transactional_ids
    )


def selects_partition(rule: RequestFault, topic: str, partition: int) -> bool:
    """Return whether a rule selects a partition. `NO_PARTITION` means every partition of the topic."""
    if not matches_text(rule.topic, topic):
        return False
    return rule.partition < 0 or partition in (rule.partition, NO_PARTITION)


def subject_of(request: KafkaMessage, api: ApiKey, topic_name: TopicName) -> Subject:
    """Return the subject of a request. For a Fetch request, the partitions of its fetch session must be added."""
    partitions = None if _is_of_all(request, api) else tuple(_partitions(request, api, topic_name))
    groups, transactional_ids = _keys(request) if api is ApiKey.FIND_COORDINATOR else ((), ())
    return Subject(
        partitions,
        groups or tuple(_groups(request)),
        transactional_ids or tuple(_transactional_ids(request)),
    )


def _is_of_all(request: KafkaMessage, api: ApiKey) -> bool:
    return api is ApiKey.METADATA and (request.topics is None or (not request.__version__ and not request.topics))


def _keys(request: KafkaMessage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the groups and the transactional ids in a FindCoordinator request."""
    keys = getattr(request, "coordinator_keys", None) or (getattr(request, "key", ""),)
    texts = tuple(map(str, keys))
    is_of_groups = int(getattr(request, "key_type", GROUP_KEY)) == GROUP_KEY
    return (texts, ()) if is_of_groups else ((), texts)


def _groups(request: KafkaMessage) -> Iterator[str]:
    group_id = getattr(request, "group_id", None)
    if group_id is not None:
        yield str(group_id)
    for group in getattr(request, "groups", None) or getattr(request, "groups_names", None) or ():
        yield str(getattr(group, "group_id", group))


def _transactional_ids(request: KafkaMessage) -> Iterator[str]:
    for name in ("transactional_id", "v3_and_below_transactional_id"):
        found = getattr(request, name, None)
        if found:
            yield str(found)
    for transaction in getattr(request, "transactions", ()):
        yield str(transaction.transactional_id)


_TOPICS = ("topic_data", "topics", "topic_names", "v3_and_below_topics")
_ROWS = ("partition_data", "partitions", "partition_indexes")
_INDEXES = ("partition_index", "partition", "index")


def _partitions(request: KafkaMessage, api: ApiKey, topic_name: TopicName) -> Iterator[tuple[str, int]]:
    if api not in WITH_TOPICS:
        return
    if api is ApiKey.OFFSET_FETCH and hasattr(request, "groups"):
        for group in request.groups:
            yield from _of_topics(group.topics, topic_name)
        return
    for transaction in getattr(request, "transactions", ()):
        yield from _of_topics(transaction.topics, topic_name)
    for name in _TOPICS:
        yield from _of_topics(getattr(request, name, None), topic_name)


def _of_topics(topics: Iterable[Any] | None, topic_name: TopicName) -> Iterator[tuple[str, int]]:
    for topic in topics or ():
        name = name_of(topic, topic_name)
        rows = next((rows for each in _ROWS if (rows := getattr(topic, each, None)) is not None), None)
        if rows is None:
            yield name, NO_PARTITION
        for row in rows or ():
            yield name, index_of(row)


def name_of(topic: Any, topic_name: TopicName) -> str:
    """Return the name of a topic in a request; empty if the broker does not know the topic's id."""
    if isinstance(topic, str):
        return topic
    name = getattr(topic, "name", None) or getattr(topic, "topic", None)
    topic_id = getattr(topic, "topic_id", None)
    return str(name) if name else (topic_name(topic_id) or "") if topic_id is not None else ""


def index_of(row: Any) -> int:
    """Return the partition number of a row in a request."""
    if isinstance(row, int):
        return int(row)
    return int(next(getattr(row, name) for name in _INDEXES if hasattr(row, name)))
