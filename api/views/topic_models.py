"""JSON models of the sizes of topics and of the records of a partition."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.views.models import SilentBroker
from zabka.kafka.client.record_reading import Transaction


class PartitionSizeView(BaseModel):
    """Size and rate of one partition. A value that its leader did not return is null."""

    partition: int
    leader: int = Field(description="-1 for none")
    first_offset: int | None
    end_offset: int | None
    records: int | None = Field(
        description="`end_offset` - `first_offset`: an upper bound, because of compaction and markers"
    )
    records_per_s: float | None = Field(description="Null until there are two readings")
    bytes: int | None = Field(description="Size of the leader's log")
    bytes_per_s: float | None = Field(description="Growth of the leader's log; null while it shrinks or moves")
    replica_bytes: dict[str, int] = Field(description="Size of the log per broker, for the brokers that responded")


class TopicSize(BaseModel):
    """Size and rate of one topic. A sum is null if a value of a partition is."""

    name: str
    records: int | None
    records_per_s: float | None
    bytes: int | None = Field(description="Size of the leaders' logs")
    bytes_per_s: float | None
    stored_bytes: int = Field(description="Size of all replicas on the brokers that responded")
    partitions: list[PartitionSizeView]


class Reassignment(BaseModel):
    """An ongoing reassignment of a partition."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    copied: dict[str, float | None] = Field(
        description="For each added replica: the size of its log as a part of the leader's, at most 1; null if unknown"
    )


class TopicSizes(BaseModel):
    """Sizes and rates of all topics, and the ongoing reassignments."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "topics": [{
            "name": "orders", "records": 120, "records_per_s": 50.0, "bytes": 9840, "bytes_per_s": 4100.0,
            "stored_bytes": 29520,
            "partitions": [{
                "partition": 0, "leader": 1, "first_offset": 0, "end_offset": 120, "records": 120,
                "records_per_s": 50.0, "bytes": 9840, "bytes_per_s": 4100.0,
                "replica_bytes": {"1": 9840, "2": 9840, "3": 9840},
            }],
        }],
        "reassignments": [{"topic": "orders", "partition": 0, "replicas": [1, 4, 2], "adding": [4], "removing": [2],
                           "copied": {"4": 0.63}}],
        "silent_brokers": [], "problem": None,
    }})  # fmt: skip

    topics: list[TopicSize]
    reassignments: list[Reassignment] | None = Field(description="Null if no controller responds")
    silent_brokers: list[SilentBroker] = Field(description="Brokers that did not return sizes or offsets")
    problem: str | None = Field(description="Why no broker responded; null if one did")


class RecordBytes(BaseModel):
    """A key, a value, or the value of a header."""

    size: int = Field(description="Number of bytes")
    text: str | None = Field(description="The first 10,240 bytes; null if they are not UTF-8")
    hex: str = Field(description="The first 10,240 bytes, hexadecimal")
    truncated: bool


class RecordHeader(BaseModel):
    """A header of a record."""

    key: str
    value: RecordBytes | None


class RecordView(BaseModel):
    """A record of a partition, or the marker that ends a transaction."""

    offset: int
    timestamp_ms: int | None
    timestamp_type: Literal["create", "append"]
    leader_epoch: int
    key: RecordBytes | None
    value: RecordBytes | None
    headers: list[RecordHeader] = Field(description="The first 100")
    producer_id: int | None = Field(description="Of an idempotent or transactional producer")
    transaction: Transaction | None = Field(
        description="Outcome of the record's transaction; `undecided` at and after the last stable offset"
    )
    marker: Literal["commit", "abort"] | None = Field(description="Set if this is the marker of a transaction")


class Records(BaseModel):
    """Records of a partition from an offset on."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "topic": "orders", "partition": 0, "first_offset": 0, "last_stable_offset": 120, "high_watermark": 120,
        "next_offset": 120,
        "records": [{
            "offset": 119, "timestamp_ms": 1700000000000, "timestamp_type": "create", "leader_epoch": 4,
            "key": None, "value": {"size": 5, "text": "hello", "hex": "68656c6c6f", "truncated": False},
            "headers": [], "producer_id": None, "transaction": None, "marker": None,
        }],
    }})  # fmt: skip

    topic: str
    partition: int
    first_offset: int
    last_stable_offset: int
    high_watermark: int
    next_offset: int = Field(description="The offset after the last record: `from` of the next page")
    records: list[RecordView]
