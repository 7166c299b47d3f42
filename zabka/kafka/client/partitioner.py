"""Chooses the partition of a record as Kafka's own producer does (BuiltInPartitioner)."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995


def partition_for(key: bytes | None, partitions: int, turn: int) -> int:
    """Return the partition for a record: by the key's hash, or by `turn` if the record has no key.

    With a hash, all records with the same key are in order.
    """
    return turn % partitions if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2, with the seed of every Kafka client (org.apache.kafka.common.utils.Utils)."""
    digest = _SEED ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        digest = (digest * _M & _MASK) ^ word
    if whole < len(data):
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    digest = (digest ^ digest >> 13) * _M & _MASK
    return digest ^ digest >> 15
