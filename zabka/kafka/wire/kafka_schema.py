"""Kafka's messages by API key and version. Any version can be built from plain values.

kio has one dataclass for each version of each message, and a handler of Metadata versions 0 to 12 should not need
thirteen classes. The handler passes all its values, under kio's field names, and `fill` uses the fields that the
version has. A field without a value gets the schema's default, or the zero value of its type.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import IntEnum
from functools import cache
from pkgutil import resolve_name
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType, uuid_zero
from kio.static.primitive import TZAware, i32_timedelta_max

from zabka.kafka.ports import KafkaMessage

_Timedelta = type(i32_timedelta_max)
Uuid: Any = type(uuid_zero)
"""Type of topic ids (uuid.UUID)."""
NO_TIME = _Timedelta(0)
_MILLISECOND = _Timedelta(milliseconds=1)
_EPOCH: Any = TZAware.__bound__.fromisoformat("1970-01-01T00:00:00+00:00")  # type: ignore[misc]

KafkaUuid = Any
"""A topic id in messages (uuid.UUID)."""

FETCH_BY_TOPIC_ID = 13
"""First Fetch version that identifies topics by id."""


class ApiKey(IntEnum):
    """API keys of Kafka (ApiKeys.java) that zabka's brokers know."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69


@cache
def _schema(api_key: int, version: int, kind: EntityType) -> type[Any]:
    path = schema_name_map[api_key_map[api_key]][version][kind]  # type: ignore[index]
    resolved = resolve_name(path)
    assert isinstance(resolved, type)
    return resolved


def request_class(api_key: int, version: int) -> type[Any]:
    """Return kio's class for a request of that version. Raises KeyError if kio has no such version."""
    return _schema(api_key, version, EntityType.request)


def response_class(api_key: int, version: int) -> type[Any]:
    """Return kio's class for the response to a request of that version. Raises KeyError if kio has no such version."""
    return _schema(api_key, version, EntityType.response)


def api_key_of(message: KafkaMessage) -> int:
    """Return the API key of a request or response."""
    return int(message.__api_key__)


def version_of(message: KafkaMessage) -> int:
    """Return the API version of a request or response."""
    return int(message.__version__)


class _Field(NamedTuple):
    name: str
    convert: Callable[[Any], Any] | None
    """Function that converts a plain value to the field's type; None if no conversion is necessary."""
    implicit: Any
    """Value of the field if none is given. MISSING means the schema's own default."""


def _timedelta_from_ms(value: int) -> Any:
    return _Timedelta(milliseconds=value)


def _nested_class(hint: Any) -> tuple[type[Any] | None, bool]:
    """Return the dataclass of a field's values, or None if the values are not instances of a dataclass.

    Also return whether the field is a tuple of such values.
    """
    for candidate in (hint, *typing.get_args(hint)):
        if isinstance(candidate, type) and is_dataclass(candidate):
            return candidate, typing.get_origin(hint) is tuple
        if typing.get_origin(candidate) is tuple:
            return _nested_class(typing.get_args(candidate)[0])[0], True
    return None, False


def _is_optional(hint: Any) -> bool:
    return typing.get_origin(hint) is types.UnionType and type(None) in typing.get_args(hint)


def _is_tuple(hint: Any) -> bool:
    return any(typing.get_origin(candidate) is tuple for candidate in (hint, *typing.get_args(hint)))


_ZERO: Mapping[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "error_code": ErrorCode.none,
    "timedelta_i32": _Timedelta(0),
    "timedelta_i64": _Timedelta(0),
    "datetime_i64": _EPOCH,
    "uuid": None,
}


def _entities(nested: type[Any]) -> Callable[[Any], Any]:
    def convert(values: Any) -> Any:
        if values is None:
            return None
        return tuple(value if isinstance(value, nested) else fill(nested, value) for value in values)

    return convert


def _tuple(values: Any) -> Any:
    return None if values is None else tuple(values)


def _converter(kafka_type: str | None, hint: Any) -> Callable[[Any], Any] | None:
    nested, many = _nested_class(hint)
    if nested is not None:
        return _entities(nested) if many else lambda value: fill(nested, value)
    if _is_tuple(hint):
        return _tuple
    if kafka_type == "error_code":
        return ErrorCode
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        return _timedelta_from_ms
    return None


class Rows(NamedTuple):
    """Rows of a message: the name of the field that contains them, and their class."""

    field: str
    schema: type[Any]


def last_rows(schema: type[Any]) -> Rows | None:
    """Return the rows with which a message of that class ends, apart from tagged fields.

    Return None if the message does not end with rows.
    """
    return _last_rows(schema)  # type: ignore[arg-type]


@cache
def _last_rows(schema: type[Any]) -> Rows | None:
    last = fields(schema)[-1:]
    if not last or last[0].metadata.get("tag") is not None:
        return None
    nested, many = _nested_class(typing.get_type_hints(schema)[last[0].name])
    return Rows(last[0].name, nested) if nested is not None and many else None


@cache
def _plan(schema: type[Any]) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(schema)
    plan = []
    for field in fields(schema):
        if field.name.startswith("__"):
            continue
        hint = hints[field.name]
        kafka_type = field.metadata.get("kafka_type")
        if field.default is not MISSING:
            implicit: Any = MISSING
        elif _is_optional(hint):
            implicit = None
        elif _is_tuple(hint):
            implicit = ()
        elif (nested := _nested_class(hint)[0]) is not None:
            implicit = fill(nested, {})
        else:
            implicit = _ZERO.get(str(kafka_type), 0)
        plan.append(_Field(field.name, _converter(kafka_type, hint), implicit))
    return tuple(plan)


def fill(schema: type[Any], values: Mapping[str, Any]) -> KafkaMessage:
    """Create a message of that class from `values`, whose keys are kio's field names.

    Nested values are mappings, times are in milliseconds, errors are codes. Values for fields that this version lacks
    are ignored. Rows may already be messages (`last_rows`).
    """
    arguments = {}
    for name, convert, implicit in _plan(schema):  # type: ignore[arg-type]
        if name in values:
            value = values[name]
            arguments[name] = value if convert is None else convert(value)
        elif implicit is not MISSING:
            arguments[name] = implicit
    return schema(**arguments)


def request(api_key: int, version: int, **values: Any) -> KafkaMessage:
    """Create a request of that API and version."""
    return fill(request_class(api_key, version), values)


def respond(to: KafkaMessage, **values: Any) -> KafkaMessage:
    """Create the response to a request, in the request's version."""
    return fill(response_class(api_key_of(to), version_of(to)), values)


def milliseconds(delta: Any) -> int:
    """Convert a kio duration to whole milliseconds."""
    return int(delta // _MILLISECOND)


def wall_time(wall_ms: int) -> Any:
    """Convert a wall-clock time in milliseconds to the type that messages use."""
    return _EPOCH + wall_ms * _MILLISECOND


def as_time(duration_ms: int) -> Any:
    """Convert a duration in milliseconds to the type that messages use."""
    return _Timedelta(milliseconds=duration_ms)
