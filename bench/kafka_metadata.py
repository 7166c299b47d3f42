"""Asks one broker for the metadata of all partitions, over a connection of its own."""

from __future__ import annotations

import socket
from types import TracebackType

from zabka.kafka.wire.frame_reader import FrameReader
from zabka.kafka.wire.frames import decode_response, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request

TIMEOUT_S = 60.0
VERSION = 5
RESPONSE_BYTES_MAX = 1 << 28


class MetadataPoll:
    """Use with `with`.  Works with any Kafka broker."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._link = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._reader = FrameReader(RESPONSE_BYTES_MAX)
        self._asked = request(ApiKey.METADATA, VERSION, topics=None, allow_auto_topic_creation=False)

    def __enter__(self) -> MetadataPoll:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.close()

    def has_leaders(self, without: int) -> bool:
        """Has every partition a leader that is not that broker?"""
        self._link.sendall(encode_request(1, "bench", self._asked))
        frames: list[bytes] = []
        while not frames:
            frames = self._reader.feed(self._link.recv(1 << 20))
        response = decode_response(frames[0], self._asked)
        leaders = [row.leader_id for topic in response.topics for row in topic.partitions]
        return bool(leaders) and all(leader >= 0 and leader != without for leader in leaders)
