"""A client that sends single SASL messages over Kafka's protocol, for tests."""

from __future__ import annotations

import asyncio
from typing import Any

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.frame_reader import FRAME_SIZE
from zabka.kafka.wire.frames import decode_response, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request


class SaslClient:
    """A connection to a broker on which single requests are sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port: int, **options: Any) -> SaslClient:
        return cls(*await asyncio.open_connection("127.0.0.1", port, **options))

    async def frame(self, data: bytes) -> bytes:
        """Send a frame and return the next one. Raises IncompleteReadError or ConnectionError if there is none."""
        self.writer.write(FRAME_SIZE.pack(len(data)) + data)
        (size,) = FRAME_SIZE.unpack(await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def ask(self, message: KafkaMessage) -> Any:
        return decode_response(await self.frame(encode_request(7, "shop", message)[4:]), message)

    async def handshake(self, mechanism: str, version: int = 1) -> Any:
        return await self.ask(request(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism))

    async def authenticate(self, token: bytes, version: int = 2) -> Any:
        return await self.ask(request(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token))

    async def plain(self, user: str = "alice", password: str = "secret") -> Any:
        await self.handshake("PLAIN")
        return await self.authenticate(f"\0{user}\0{password}".encode())

    async def close(self) -> None:
        self.writer.close()

    async def at_end(self) -> bool:
        """Return whether the broker closes the connection without sending anything else."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True
