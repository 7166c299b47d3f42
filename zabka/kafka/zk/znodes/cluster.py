"""Single znodes of the whole cluster: the cluster id, the last block of producer ids, and failed log directories."""

from __future__ import annotations

from zabka.kafka.zk.znodes.json_content import INT64_MAX, decode, encode, is_int32, plain_number


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode the content of /cluster/id. The version field is a string, as in Kafka."""
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str | None:
    """Decode the cluster id in /cluster/id; None if it is not valid."""
    value = decode(data)
    cluster_id = value.get("id") if value else None
    return cluster_id if isinstance(cluster_id, str) else None


def encode_producer_id_block(broker_id: int, first: int, last: int) -> bytes:
    """Encode the content of /latest_producer_id_block.

    The first and last id are both in the block, and encoded as strings.
    """
    return encode({"version": 1, "broker": broker_id, "block_start": str(first), "block_end": str(last)})


def decode_producer_id_block(data: bytes | None) -> tuple[int, int, int] | None:
    """Decode the content of /latest_producer_id_block as (broker id, first, last); None if it is not valid."""
    value = decode(data) or {}
    broker = value.get("broker")
    first, last = (plain_number(str(value.get(end)), INT64_MAX) for end in ("block_start", "block_end"))
    if not isinstance(broker, int) or first is None or last is None:
        return None
    return broker, first, last


def encode_log_dir_event(broker_id: int) -> bytes:
    """Encode the content of /log_dir_event_notification/log_dir_event_N: a log directory of that broker failed."""
    return encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes | None) -> int | None:
    """Decode the id of the broker whose log directory failed; None if the data is not valid."""
    value = decode(data)
    broker_id = value.get("broker") if value else None
    return broker_id if is_int32(broker_id, 0) else None
