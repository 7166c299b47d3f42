"""A container's health check. It requests the health of the agent and, if the API runs in the same container, of the
API.

`python -m zabka.compose.healthcheck PORT [PORT]` requests `/healthz` from each port. Each check is a new process, in
every container at the same time, so it imports only the standard library.
"""

from __future__ import annotations

import socket
import sys

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 65_536


def trouble(port: int, timeout_s: float = TIMEOUT_S) -> str:
    """Return why the server on this port is not healthy, or an empty string if it is healthy."""
    request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as link:
            link.sendall(request)
            while len(answer) < ANSWER_BYTES_MAX and (more := link.recv(ANSWER_BYTES_MAX)):
                answer += more
    except OSError as failure:
        return f"port {port}: {failure}"
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    return "" if status == [b"200"] else f"port {port}: {(body or head).decode(errors='replace')}"


def main(ports: list[str]) -> int:
    """Check every port. Return exit code 0 if all are healthy, else 1, with the reason on standard error."""
    for port in ports:
        if reason := trouble(int(port)):
            print(reason, file=sys.stderr)  # noqa: T201
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
