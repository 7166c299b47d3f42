"""Content of /controller and /controller_epoch: the current controller, and the controller epoch."""

from __future__ import annotations

from zabka.kafka.zk.znodes.json_content import INT32_MAX, decode, encode, is_int32, plain_number


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """Encode the content of /controller (ControllerZNode, version 2)."""
    return encode({"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1})


def decode_controller(data: bytes | None) -> int | None:
    """Decode the broker id in /controller, of any version; None if the data is not valid."""
    value = decode(data)
    broker_id = value.get("brokerid") if value else None
    return broker_id if is_int32(broker_id, 0) else None


def encode_controller_epoch(epoch: int) -> bytes:
    """Encode the content of /controller_epoch: the epoch as a plain decimal string."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes | None) -> int | None:
    """Decode the epoch in /controller_epoch; None if the data is not valid."""
    return plain_number((data or b"").decode("ascii", "replace"), INT32_MAX - 1)
