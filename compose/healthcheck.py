"""A container's health check. It requests the agent's health and, if the API runs in the container, the API's.

`python -m zabka.compose.healthcheck PORT [PORT]` requests `/healthz` from each port, over TLS for `tls:PORT`. Each
check is a new process, in every container at the same time, so it imports only the standard library.
"""

from __future__ import annotations

import socket
import sys

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 65_536
_TLS = "tls:"


def trouble(port: int, timeout_s: float = TIMEOUT_S, *, tls: bool = False) -> str:
    """Return why the server on this port is not healthy, or an empty string if it is healthy.

    With `tls`, the server's certificate is not verified: the server is in the same container.
    """
    request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    answer = b""
    try:
        with _connected(port, timeout_s, tls) as link:
            link.sendall(request)
            while len(answer) < ANSWER_BYTES_MAX and (more := link.recv(ANSWER_BYTES_MAX)):
                answer += more
    except OSError as failure:
        return f"port {port}: {failure}"
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    return "" if status == [b"200"] else f"port {port}: {(body or head).decode(errors='replace')}"


def _connected(port: int, timeout_s: float, tls: bool) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), timeout_s)
    if not tls:
        return link
    # Imported only here, because the import takes as long as the rest of a check.
    import ssl

    try:
        return ssl._create_unverified_context().wrap_socket(link)
    except BaseException:
        link.close()
        raise


def main(ports: list[str]) -> int:
    """Check every port. Return exit code 0 if all are healthy, else 1, with the reason on standard error."""
    for port in ports:
        if reason := trouble(int(port.removeprefix(_TLS)), tls=port.startswith(_TLS)):
            print(reason, file=sys.stderr)  # noqa: T201
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
