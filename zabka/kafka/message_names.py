"""Names of Kafka's messages (ApiKeys.java), and the subject of each message for the message log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from zabka.journal.messages import ANSWER, Content, Subject, listed
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of

CONTROL = (
    ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA, ApiKey.ALTER_PARTITION,
    ApiKey.CONTROLLED_SHUTDOWN,
)  # fmt: skip
_DATA = (ApiKey.PRODUCE, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID)
_GROUP = (
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.OFFSET_DELETE,
    ApiKey.DELETE_GROUPS,
)  # fmt: skip
_CLASSES: dict[int, str] = {
    **dict.fromkeys(CONTROL, "controller"),
    **dict.fromkeys(_DATA, "data"),
    **dict.fromkeys(_GROUP, "group"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "replication",
}
_TOPICS = ("topic_states", "ungrouped_partition_states", "topics", "topic_data", "responses", "partition_errors")
_TOPIC_NAMES = ("topic_name", "name", "topic", "topic_id")
_ROWS = ("partition_states", "partitions", "partition_data", "partition_responses", "partition_errors")
_INDEXES = ("partition_index", "partition", "index")
_FACTS = (
    "controller_id", "controller_epoch", "broker_id", "broker_epoch", "replica_id", "session_id", "session_epoch",
    "acks",
)  # fmt: skip

_TEXTS = {"group_id": "group", "transactional_id": "transactional_id"}


@cache
def api_name(api_key: int) -> str:
    """Return Kafka's name of an API, such as `LeaderAndIsr`."""
    return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))


def request_content(request: KafkaMessage) -> Content:
    """Return the message class, name and subject of a request, for the message log.

    The class of a Fetch is `fetch` if a follower sent it, and `data` if a consumer sent it.
    """
    api_key = api_key_of(request)
    return Content(_request_class(api_key, request), api_name(api_key), _subject(request, _request_text))


def _request_class(api_key: int, request: KafkaMessage) -> str:
    if api_key == ApiKey.FETCH:
        return "fetch" if request.replica_id >= 0 else "data"
    return _CLASSES.get(api_key, "admin")


def response_content(response: KafkaMessage, asked: str) -> Content:
    """Return the content of a response, for the message log. `asked` is the message class of the request."""
    return Content(asked, api_name(api_key_of(response)) + ANSWER, _subject(response, _error_text))


def _subject(message: KafkaMessage, text_of: Any) -> Subject:
    found: Subject = {}
    for name in _FACTS:
        value = getattr(message, name, None)
        if isinstance(value, int):
            found[name] = int(value)
    for name, label in _TEXTS.items():
        text = getattr(message, name, None)
        if isinstance(text, str) and text:
            found[label] = text
    error = getattr(message, "error_code", None)
    if error:
        found["error"] = error.name
    live = getattr(message, "live_brokers", None)
    if live:
        found["live"] = sorted(int(getattr(broker, "id_", -1)) for broker in live)
    partitions = [f"{name}{text_of(row)}" for name, row in _partitions(message)]
    return found | listed(partitions) if partitions else found


def _first(message: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        value = getattr(message, name, None)
        if value is not None:
            return value
    return None


def _topic_name(topic: Any) -> str:
    """Return the topic's name, or the beginning of its id if the message contains no name."""
    name = _first(topic, _TOPIC_NAMES)
    return name if isinstance(name, str) else f"topic {str(name)[:8]}"


def _partitions(message: KafkaMessage) -> Iterator[tuple[str, Any]]:
    for topic in _first(message, _TOPICS) or ():
        name = _topic_name(topic)
        rows = _first(topic, _ROWS)
        if rows is None:
            index = _first(topic, _INDEXES)
            yield (f"{name}-{index}" if index is not None else name), topic
            continue
        for row in rows:
            yield f"{name}-{_first(row, _INDEXES)}", row


def _request_text(row: Any) -> str:
    """Describe the fields of a request about one partition: its leader, epoch and ISR, or its fetch offset."""
    leader = getattr(row, "leader", None)
    if leader is not None:
        isr = ",".join(map(str, row.isr))
        return f" leader {leader} epoch {row.leader_epoch} isr {isr}"
    offset = getattr(row, "fetch_offset", None)
    if offset is not None:
        return f" from {offset}"
    isr = _first(row, ("new_isr", "new_isr_with_epochs"))
    if isr is not None:
        return " isr " + ",".join(str(getattr(member, "broker_id", member)) for member in isr)
    return ""


def _error_text(row: Any) -> str:
    error = getattr(row, "error_code", None)
    return f" {error.name}" if error else ""
