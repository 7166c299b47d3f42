"""Three running peers that receive garbage on all ports, while the requests of a normal client succeed."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

from bench.free_ports import free_ports
from tests.ensemble.server.peer_processes import Ensemble
from tests.ensemble.server.pem_files import Authority
from tests.fuzz.choices import Choices, spoil
from tests.fuzz.client_targets import connect_frames, request_frames
from tests.fuzz.peer_targets import encoded, from_learner, notifications
from zabka.ensemble.ids import Epoch, PeerId
from zabka.ensemble.server.net.election_wire import encode_notification, encode_opening
from zabka.ensemble.zab.messages import FollowerInfo

STRANGER = PeerId(9)
HELD_OPEN_MAX = 40
ANSWER_S = 15.0
MEMORY_GROWTH_BYTES_MAX = 80 * 1024 * 1024
_WORDS = [b"srvr", b"mntr", b"ruok", b"dump", b"stmk", b"wchp", b"abcd", b"SRVR"]


class Ports:
    """The TCP ports of the peers: client, secure client, quorum and election ports."""

    def __init__(self, ensemble: Ensemble, secure: dict[int, int]) -> None:
        self.by_kind = {"client": list(ensemble.client_ports.values()), "secure": list(secure.values())}
        quorum, election = [], []
        for line in ensemble.server_lines:
            _, _, ports = line.partition("127.0.0.1:")
            quorum.append(int(ports.split(":")[0]))
            election.append(int(ports.split(":")[1]))
        self.by_kind |= {"quorum": quorum, "election": election}


def _framed(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def _stream(kind: str, random: Random) -> bytes:
    """Return bytes that a real client of that port could send."""
    if kind in ("client", "secure"):
        if random.random() < 0.1:
            return random.choice(_WORDS)
        return _framed([random.choice(connect_frames()), *random.choices(request_frames(), k=5)])
    if kind == "quorum":
        sent = [FollowerInfo(Epoch(1), STRANGER, observer=random.random() < 0.5), *random.choices(from_learner(), k=4)]
        return b"".join(encoded(sent, learner=True))
    frames = [encode_notification(each) for each in notifications()]
    return encode_opening(STRANGER, "127.0.0.1:1") + b"".join(frames)


class Attack:
    """Opens one connection after the other. Each sends garbage or nothing, and some of them stay open."""

    def __init__(self, ports: Ports, random: Random, context: ssl.SSLContext | None) -> None:
        self._ports = ports
        self._random = random
        self._context = context
        self._held: list[socket.socket] = []
        self.made = 0

    def once(self) -> None:
        random = self._random
        kind = random.choice([kind for kind, ports in self._ports.by_kind.items() if ports])
        with suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", random.choice(self._ports.by_kind[kind])), 2)
            self.made += 1
            connection.settimeout(0.5)
            if kind == "secure" and self._context is not None and random.random() < 0.5:
                connection = self._context.wrap_socket(connection)
            try:
                self._speak(connection, kind)
            finally:
                self._part(connection)

    def _speak(self, connection: socket.socket, kind: str) -> None:
        random = self._random
        manner = random.randrange(7)
        if manner == 0:
            connection.sendall(random.randbytes(random.choice((1, 4, 30, 5000))))
        elif manner == 1:
            connection.sendall(_stream(kind, random))
        elif manner <= 3:
            connection.sendall(spoil(_stream(kind, random), Choices(random.randbytes(64)), 4))
        elif manner == 4:
            size = random.choice((0x7FFFFFFF, 0x3FFFFFF, 0x000FFFFE, -1, 0, 500 * 1024))
            connection.sendall(struct.pack(">i", size) + random.randbytes(random.choice((0, 100, 60_000))))
        elif manner == 5:
            for byte in _stream(kind, random)[:20]:
                connection.send(bytes([byte]))
        # (If `manner` is 6, send nothing.)
        if random.random() < 0.2:
            connection.settimeout(0.02)
            connection.recv(4096)

    def _part(self, connection: socket.socket) -> None:
        random = self._random
        if random.random() < 0.3:
            self._held.append(connection)
            if len(self._held) > HELD_OPEN_MAX:
                self._held.pop(random.randrange(len(self._held))).close()
            return
        if random.random() < 0.3:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def end(self) -> None:
        for connection in self._held:
            connection.close()


class Worker:
    """Client that alternately writes and reads, and records the longest time for which it had to wait."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.done = 0
        self.longest_s = 0.0
        self.problem: BaseException | None = None

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            with self._ensemble.client() as client:
                client.create("/kept", b"0")
                while not self._stopping.is_set():
                    began = time.monotonic()
                    client.retry(client.set, "/kept", b"%d" % (self.done + 1))
                    value, _ = client.retry(client.get, "/kept")
                    assert value == b"%d" % (self.done + 1), f"{value!r} after {self.done + 1} writes"
                    self.longest_s = max(self.longest_s, time.monotonic() - began)
                    self.done += 1
        except BaseException as problem:
            self.problem = problem


def _memory_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def fuzz_ports(
    ensemble: Ensemble, ports: Ports, seconds: float, seed: int, context: ssl.SSLContext | None = None
) -> str:
    """Attack a running ensemble for `seconds`, and return a summary.

    Raises AssertionError if the ensemble does not work as before.
    """
    attack = Attack(ports, Random(seed), context)
    processes = dict(ensemble.processes)
    # Connect a few times before memory is measured, so that everything that a first connection needs is loaded.
    for _ in range(50):
        attack.once()
    before = {i: _memory_bytes(process.pid) for i, process in processes.items()}
    with ExitStack() as stack:
        stack.callback(attack.end)
        worker = stack.enter_context(Worker(ensemble))
        end = time.monotonic() + seconds
        while time.monotonic() < end and worker.problem is None:
            attack.once()
    assert worker.problem is None, f"after {worker.done} writes: {worker.problem!r}"
    assert worker.done > seconds, f"only {worker.done} writes in {seconds} s"
    assert worker.longest_s < ANSWER_S, f"a write took {worker.longest_s:.1f} s"
    grown = 0
    for i, process in processes.items():
        assert process.poll() is None, f"peer {i} has ended: {ensemble.log(i)[-2000:]}"
        log = ensemble.log(i)
        assert "Traceback" not in log and "Fatal error" not in log, log[-4000:]
        grown = max(grown, _memory_bytes(process.pid) - before[i])
    assert grown < MEMORY_GROWTH_BYTES_MAX, f"a peer has grown by {grown} bytes"
    assert set(ensemble.modes().values()) <= {"leader", "follower"}
    return (
        f"{attack.made} connections, {worker.done} writes meanwhile, the slowest in {worker.longest_s * 1000:.0f} ms, "
        f"memory grown by {grown // 1024} KiB"
    )


def attack_new_ensemble(directory: Path, seconds: float, seed: int) -> str:
    """Attack a new ensemble of three peers. If `openssl` can create certificates, each peer also has a TLS port."""
    ensemble = Ensemble(directory, 3)
    secure: dict[int, int] = {}
    context: ssl.SSLContext | None = None
    if shutil.which("openssl") is not None:
        authority = Authority(directory / "ssl")
        store = authority.store("server", "/CN=server", "DNS:localhost,IP:127.0.0.1")
        secure = dict(zip(ensemble.client_ports, free_ports(3), strict=True))
        for i, port in secure.items():
            with ensemble.config(i).open("a") as config:
                config.write(f"secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n")
                config.write(f"ssl.keyStore.location={store}\nssl.trustStore.location={authority.ca}\n")
                config.write("ssl.handshakeDetectionTimeoutMillis=500\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(store)
    try:
        ensemble.start()
        ensemble.wait_for_quorum()
        return fuzz_ports(ensemble, Ports(ensemble, secure), seconds, seed, context)
    finally:
        ensemble.close()
