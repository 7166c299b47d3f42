"""One `server.N` value: host:quorumPort:electionPort[:role][;[clientHost:]clientPort] (QuorumPeer.QuorumServer)."""

from __future__ import annotations

from typing import NamedTuple


class ServerLine(NamedTuple):
    """A server of the ensemble."""

    host: str
    quorum_port: int
    election_port: int
    observer: bool = False
    client_host: str = ""
    client_port: int | None = None

    def canonical(self) -> str:
        """As ZooKeeper writes it in its configuration znode."""
        role = "observer" if self.observer else "participant"
        text = f"{bracketed(self.host)}:{self.quorum_port}:{self.election_port}:{role}"
        if self.client_port is None:
            return text
        return f"{text};{bracketed(self.client_host or '0.0.0.0')}:{self.client_port}"


def bracketed(host: str) -> str:
    """A host as it is written before a port."""
    return f"[{host}]" if ":" in host else host


def _fields(text: str) -> list[str]:
    """Split at colons, but not inside [IPv6]."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError("a [ without its ]")
        return [host, *(rest[1:].split(":") if rest else [])]
    return text.split(":")


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise ValueError(f"{text!r} is no port")
    return int(text)


def parse_server_line(text: str) -> ServerLine:
    """Read one server.  Raises ValueError with the reason."""
    quorum, semicolon, client = text.partition(";")
    if "|" in quorum:
        raise ValueError("several addresses for one server are not supported")
    fields = _fields(quorum.strip())
    if not 3 <= len(fields) <= 4 or not fields[0]:
        raise ValueError("expected host:quorumPort:electionPort[:role]")
    role = fields[3].strip().lower() if len(fields) == 4 else "participant"
    if role not in ("participant", "observer"):
        raise ValueError(f"{fields[3]!r} is neither participant nor observer")
    client_host, client_port = "", None
    if semicolon:
        *host, port = _fields(client.strip())
        if len(host) > 1:
            raise ValueError("expected [host:]clientPort behind the semicolon")
        client_host, client_port = (host[0] if host else ""), _port(port)
    return ServerLine(fields[0], _port(fields[1]), _port(fields[2]), role == "observer", client_host, client_port)
