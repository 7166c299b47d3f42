#!/usr/bin/env python3
"""How long are writes refused while an ensemble replaces its leader?

Keeps one client writing (one request in flight), has the leader killed with the command you give, and reports the
longest time between two acknowledged writes, whether the client's session survived, and whether any acknowledged
write was lost.  Works against any ZooKeeper-protocol server.

    zkfailover.py --hosts 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183 \
                  --kill 'kill -9 $(cat run/{n}/pid)' --restart './start {n}' --rounds 5

{n} is the 1-based position of the leader in --hosts, found with the four-letter word 'srvr'.
Standard library only; Python 3.11+.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

CREATE, GET, SET = 1, 4, 5
OUTAGE_MIN_S = 0.01
"""A pause between two acknowledged writes that is longer, after the kill, is the outage."""
READ_BACK_TRIES = 50


def ustring(text: str) -> bytes:
    """A jute string."""
    raw = text.encode()
    return struct.pack(">i", len(raw)) + raw


OPEN_ACL = struct.pack(">ii", 1, 31) + ustring("world") + ustring("anyone")


def frame(payload: bytes) -> bytes:
    """A message with its length before it."""
    return struct.pack(">i", len(payload)) + payload


def _exactly(link: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        part = link.recv(size - len(got))
        if not part:
            raise ConnectionError("server closed the connection")
        got += part
    return bytes(got)


def read_frame(link: socket.socket) -> bytes:
    """The next message, without its length.  Raises OSError."""
    (size,) = struct.unpack(">i", _exactly(link, 4))
    return _exactly(link, size)


def _dial(host: str, timeout_s: float) -> socket.socket:
    name, port = host.rsplit(":", 1)
    return socket.create_connection((name, int(port)), timeout=timeout_s)


def mode(host: str) -> str:
    """What a server says it is: leader, follower, …; "down" where it does not say."""
    return _said(host, "Mode") or "down"


def node_count(host: str) -> int:
    """How many znodes a server says it has.  Raises ValueError where it does not say."""
    return int(_said(host, "Node count"))


def _said(host: str, key: str) -> str:
    """What stands behind a key in a server's answer to `srvr`; empty where nothing does."""
    try:
        with _dial(host, 1) as link:
            link.sendall(b"srvr")
            out = b""
            while chunk := link.recv(4096):
                out += chunk
    except OSError:
        return ""
    lines = out.decode(errors="replace").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith(f"{key}:")), "")


class Client:
    """One session that survives reconnects, as a ZooKeeper client's must."""

    def __init__(self, hosts: list[str], timeout_ms: int) -> None:
        self.session_id = 0
        self.connected = False
        self.expired = False
        self._hosts = hosts
        self._timeout_ms = timeout_ms
        self._password = b"\0" * 16
        self._zxid = 0
        self._xid = 0
        self._at = 0
        self._link: socket.socket | None = None

    def connect(self) -> bool:
        """Try the next server once."""
        self._at = (self._at + 1) % len(self._hosts)
        hello = struct.pack(">iqiqi", 0, self._zxid, self._timeout_ms, self.session_id, 16) + self._password + b"\0"
        try:
            link = self._link = _dial(self._hosts[self._at], 0.25)
            link.settimeout(2)
            link.sendall(frame(hello))
            reply = read_frame(link)
        except OSError:
            self.close()
            return False
        _, granted_ms, session_id = struct.unpack(">iiq", reply[:16])
        if granted_ms <= 0 or session_id == 0:
            self.expired = True
            self.close()
            return False
        self.session_id, self._password, self.connected = session_id, reply[20:36], True
        return True

    def close(self) -> None:
        """Drop the connection, keep the session."""
        if self._link is not None:
            self._link.close()
        self._link = None
        self.connected = False

    def call(self, op: int, payload: bytes) -> tuple[int, bytes]:
        """One request: its error code and the reply's body.  Raises OSError where the connection breaks."""
        link = self._link
        if link is None:
            raise ConnectionError("not connected")
        self._xid += 1
        link.sendall(frame(struct.pack(">ii", self._xid, op) + payload))
        while True:
            reply = read_frame(link)
            xid, zxid, error = struct.unpack(">iqi", reply[:16])
            if xid == self._xid:
                self._zxid = max(self._zxid, zxid)
                return error, reply[16:]

    def write(self, path: str, number: int) -> None:
        """Acknowledged, or OSError."""
        value = ustring(str(number))
        error, _ = self.call(SET, ustring(path) + value + struct.pack(">i", -1))
        if error:
            raise ConnectionError(f"error {error}")

    def read(self, path: str) -> int:
        """The number that was written last.  Raises OSError."""
        error, body = self.call(GET, ustring(path) + b"\0")
        if error:
            raise ConnectionError(f"error {error}")
        size = int.from_bytes(body[:4], "big")
        return int(body[4 : 4 + size])


@dataclass(frozen=True)
class Patience:
    """How long to write before the kill and after writes go on, when to give up, in seconds; the session's time-out."""

    before_s: float = 1.0
    after_s: float = 2.0
    give_up_s: float = 40.0
    session_ms: int = 20000


@dataclass(frozen=True)
class Outcome:
    """One kill: the longest pause in acknowledged writes, and whether the promises held."""

    gap_ms: float
    session_kept: bool
    acked: int
    kept: int
    lost: int


@dataclass
class _Watch:
    """When writes were acknowledged, around the kill; seconds of time.perf_counter."""

    last: float
    killed: float | None = None
    resumed: float | None = None
    worst_s: float = 0.0

    def acknowledged(self) -> None:
        now = time.perf_counter()
        if self.killed is not None and now > self.killed:
            self.worst_s = max(self.worst_s, now - self.last)
            if self.resumed is None and self.worst_s > OUTAGE_MIN_S:
                self.resumed = now
        self.last = now

    def done(self, patience: Patience) -> bool:
        now = time.perf_counter()
        if self.killed is None:
            return False
        if self.resumed is not None and now - self.resumed > patience.after_s:
            return True
        return now - self.killed > patience.give_up_s


def _write_through(client: Client, path: str, kill: Callable[[], None], patience: Patience) -> tuple[_Watch, int]:
    """Write without a pause, kill on the way; the times, and the last number that was acknowledged."""
    number = acked = 0
    begin = time.perf_counter()
    watch = _Watch(begin)
    while not watch.done(patience):
        if watch.killed is None and time.perf_counter() - begin > patience.before_s:
            watch.killed = time.perf_counter()
            kill()
        if not client.connected and not client.connect():
            time.sleep(0.005)
            continue
        number += 1
        try:
            client.write(path, number)
        except OSError:
            client.close()
            continue
        acked = number
        watch.acknowledged()
    if watch.resumed is None:
        watch.worst_s = max(watch.worst_s, time.perf_counter() - watch.last)
    return watch, acked


def _read_back(client: Client, path: str) -> int:
    for _ in range(READ_BACK_TRIES):
        if client.connected or client.connect():
            try:
                return client.read(path)
            except OSError:
                client.close()
        time.sleep(0.05)
    return -1


def fail_over(hosts: list[str], kill: Callable[[int], None], patience: Patience) -> tuple[int, Outcome]:
    """Kill the leader once; its position in `hosts`, from 0, and what a writing client saw.  Raises ValueError where
    there is no leader."""
    leader = [mode(host) for host in hosts].index("leader")
    client = Client([host for n, host in enumerate(hosts) if n != leader], patience.session_ms)
    while not client.connect():
        time.sleep(0.02)
    path = f"/failover-{time.time_ns()}"
    client.call(CREATE, ustring(path) + ustring("0") + OPEN_ACL + struct.pack(">i", 0))
    session_id = client.session_id
    watch, acked = _write_through(client, path, lambda: kill(leader), patience)
    kept = _read_back(client, path)
    client.close()
    session_kept = client.session_id == session_id and not client.expired
    return leader, Outcome(round(watch.worst_s * 1000, 1), session_kept, acked, kept, max(0, acked - kept))


def summary(outcomes: list[Outcome]) -> dict[str, float]:
    """Several kills together."""
    gaps = [outcome.gap_ms for outcome in outcomes]
    return {
        "rounds": len(outcomes),
        "median_gap_ms": statistics.median(gaps),
        "worst_gap_ms": max(gaps),
        "lost": sum(outcome.lost for outcome in outcomes),
        "sessions_lost": sum(not outcome.session_kept for outcome in outcomes),
    }


def _await_whole(hosts: list[str]) -> None:
    whole = ["follower"] * (len(hosts) - 1) + ["leader"]
    for _ in range(300):
        if sorted(mode(host) for host in hosts) == whole:
            return
        time.sleep(0.1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--kill", required=True)
    parser.add_argument("--restart", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=float, default=1.0)
    parser.add_argument("--after", type=float, default=2.0)
    parser.add_argument("--give-up", type=float, default=40)
    parser.add_argument("--session-ms", type=int, default=20000)
    return parser.parse_args()


def main() -> None:
    """Run as a script."""
    given = _arguments()
    hosts = given.hosts.split(",")
    patience = Patience(given.before, given.after, given.give_up, given.session_ms)

    def run(command: str, n: int) -> None:
        subprocess.run(command.replace("{n}", str(n + 1)), shell=True, check=True)

    outcomes = []
    for _ in range(given.rounds):
        leader, outcome = fail_over(hosts, lambda n: run(given.kill, n), patience)
        outcomes.append(outcome)
        print(json.dumps(asdict(outcome)), flush=True)
        if given.restart:
            run(given.restart, leader)
            _await_whole(hosts)
        time.sleep(1)
    print(json.dumps(summary(outcomes)))


if __name__ == "__main__":
    main()
