"""Start and stop our peers for tests that run in a JVM.

Each peer is a fork of this process, which has already imported the code.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

from zabka.ensemble.server.process.peer_process import main as run_peer

STARTED = "started"
LOOKS_EVERY_S = 0.02
LISTENS_WITHIN_S = 30.0


class Peers:
    """The running peers, keyed by client port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[str, int] = {}
        self._started = 0

    def start(self, port: str, keys: list[str]) -> str:
        """Start a peer with these lines in zoo.cfg, and wait until it listens.

        If the peer does not listen in time, return its output.
        """
        self._started += 1
        config = self._directory / f"{self._started}.cfg"
        config.write_text("\n".join(keys) + "\n")
        address = next(key.partition("=")[2] for key in keys if key.startswith("clientPortAddress="))
        child = os.fork()
        if child == 0:
            log = os.open(config.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os._exit(run_peer(config))
        self._running[port] = child
        deadline = time.monotonic() + LISTENS_WITHIN_S
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            try:
                socket.create_connection((address, int(port))).close()
                return STARTED
            except OSError as refused:
                if time.monotonic() > deadline:
                    self.stop(port)
                    return f"{address} port {port} cannot be reached: {refused}"
                time.sleep(LOOKS_EVERY_S)
        del self._running[port]
        return config.with_suffix(".log").read_text().strip().replace("\n", " ")

    def stop(self, port: str) -> None:
        child = self._running.pop(port, None)
        if child is not None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def stop_all(self) -> None:
        for port in list(self._running):
            self.stop(port)


def serve(peers: Peers) -> None:
    """Listen on a free port, print it, and execute the requests received on it until SIGTERM."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            link, _ = listening.accept()
            with link, link.makefile("rw") as words:
                verb, port, *keys = words.readline().rstrip("\n").split("\t")
                if verb == "start":
                    words.write(peers.start(port, keys) + "\n")
                else:
                    peers.stop(port)


def _ended(number: int, frame: object) -> None:
    raise SystemExit(0)


def main() -> None:
    peers = Peers(Path(sys.argv[1]))
    signal.signal(signal.SIGTERM, _ended)
    try:
        serve(peers)
    finally:
        peers.stop_all()


if __name__ == "__main__":
    main()
