"""The versions in ApiVersions are those of Apache Kafka 3.9.1 in ZooKeeper mode on a client listener."""

from __future__ import annotations

import pytest

from zabka.kafka.wire.api_versions import answer
from zabka.kafka.wire.frames import ResponseEncoder
from zabka.kafka.wire.kafka_schema import ApiKey, request

KAFKA = {
    0: (0, 11), 1: (0, 17), 2: (0, 9), 3: (0, 12), 4: (0, 7), 5: (0, 4), 6: (0, 8), 7: (0, 3), 8: (0, 9), 9: (0, 9),
    10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 5), 16: (0, 5), 17: (0, 1), 18: (0, 4),
    19: (0, 7), 20: (0, 6), 21: (0, 2), 22: (0, 5), 23: (0, 4), 24: (0, 5), 25: (0, 4), 26: (0, 4), 27: (0, 1),
    28: (0, 4), 29: (0, 3), 30: (0, 3), 31: (0, 3), 32: (0, 4), 33: (0, 2), 34: (0, 2), 35: (0, 4), 36: (0, 2),
    37: (0, 3), 38: (0, 3), 39: (0, 2), 40: (0, 2), 41: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 0),
    46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0), 51: (0, 0), 56: (0, 3), 57: (0, 1), 58: (0, 0),
    60: (0, 1), 61: (0, 0), 65: (0, 0), 66: (0, 1), 67: (0, 0), 68: (0, 0), 69: (0, 0),
}  # fmt: skip
"""Lowest and highest version of each API key, recorded from a Kafka broker."""


@pytest.mark.parametrize("version", range(5))
def test_api_versions_response_lists_kafkas_version_ranges(version: int) -> None:
    listed = answer(request(ApiKey.API_VERSIONS, version))
    assert {int(row.api_key): (row.min_version, row.max_version) for row in listed.api_keys} == KAFKA
    assert [int(row.api_key) for row in listed.api_keys] == sorted(KAFKA)


def test_api_versions_v0_response_equals_that_of_kafka() -> None:
    rows = b"".join(number.to_bytes(2, "big") for key, span in KAFKA.items() for number in (key, *span))
    body = ResponseEncoder().encode(7, answer(request(ApiKey.API_VERSIONS, 0)))[8:]
    assert body == b"\0\0" + len(KAFKA).to_bytes(4, "big") + rows
