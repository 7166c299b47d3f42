"""The client port: it decodes the same frames from a connection's bytes, in chunks of any size."""

from __future__ import annotations

from tests.fuzz.choices import Choices, Target, pieces
from tests.fuzz.client_targets import connect_frames, request_frames
from zabka.ensemble.auth.policy import OPEN_POLICY
from zabka.ensemble.records import ClientMessage, ConnectRequest, Frames
from zabka.ensemble.server.config.limits import Limits
from zabka.ensemble.server.net.admission import Admission
from zabka.ensemble.server.net.client_port import ClientConnection, ClientPort

FRAME_BYTES_MAX = 1000
WORDS = ("srvr", "ruok")


class _Transport:
    """Transport that records the written bytes and whether it is closed."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None: ...
    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...


class _Listener:
    """Receiver of the client port's input, which it records."""

    def __init__(self) -> None:
        self.received: list[object] = []

    def on_client_connected(self, connection: object, identities: object) -> None: ...
    def on_client_refused(self, remote: str, reason: str) -> None: ...
    def on_client_closed(self, connection: object) -> None: ...

    def on_client_messages(self, connection: object, messages: list[ClientMessage]) -> None:
        for message in messages:
            if isinstance(message, Frames):
                assert all(8 <= len(frame) <= FRAME_BYTES_MAX for frame in message.frames)
                self.received += message.frames
            else:
                assert isinstance(message, ConnectRequest) and not self.received
                self.received.append(message)

    def answer_word(self, word: str, argument: bytes) -> str | None:
        return f"{word}!" if word in WORDS else None

    def outstanding(self, connection: object) -> int:
        return 0


def client_port(data: bytes) -> None:
    choices, stream = Choices(data[:8]), data[8:]
    outcomes = []
    for cuts in ([stream], pieces(stream, choices)):
        listener, transport = _Listener(), _Transport()
        admission = Admission(Limits(frame_bytes=FRAME_BYTES_MAX), lambda: 0.5, 0)
        port = ClientPort(listener, admission, OPEN_POLICY)  # type: ignore[arg-type]
        connection = ClientConnection(port, None)
        connection._transport = transport  # type: ignore[assignment]
        for cut in cuts:
            connection.data_received(cut)
            assert sum(map(len, connection._arriving._pieces)) <= max(len(cut), FRAME_BYTES_MAX + 4)
        outcomes.append((listener.received, transport.written, transport.closed))
    assert outcomes[0] == outcomes[1]


def _streams() -> list[bytes]:
    framed = [len(frame).to_bytes(4, "big") + frame for frame in (connect_frames()[0], *request_frames())]
    return [
        bytes(8) + b"".join(framed),
        bytes(8) + b"srvr",
        bytes(8) + b"mntr\n",
        bytes(8) + framed[0] + b"\0\0\0\4ruok",
    ]


PORT_TARGETS: dict[str, Target] = {"client-port": Target(client_port, _streams)}
