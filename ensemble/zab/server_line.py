"""Parser of a `server.N` value: host:quorumPort:electionPort[:role][;[clientHost:]clientPort] (QuorumServer).

Several addresses, for a server in several networks, are separated by `|`; their roles must agree.
"""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """One address of a server for other servers: host, quorum port and election port."""

    host: str
    quorum_port: int
    election_port: int


class ServerLine(NamedTuple):
    """Value of one `server.N` line, with the first address; `others` contains further addresses."""

    host: str
    quorum_port: int
    election_port: int
    observer: bool = False
    client_host: str = ""
    client_port: int | None = None
    others: tuple[Address, ...] = ()

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All addresses, beginning with the first one."""
        return (Address(self.host, self.quorum_port, self.election_port), *self.others)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of all addresses."""
        return tuple(address.host for address in self.addresses)

    def listens_at(self, *, on_all: bool) -> tuple[Address, ...]:
        """Return the addresses where this server listens for other servers.

        They are its own addresses or, with `on_all`, all interfaces (host "").
        """
        if not on_all:
            return self.addresses
        return tuple(dict.fromkeys(address._replace(host="") for address in self.addresses))

    def canonical(self) -> str:
        """Return the line as ZooKeeper writes it to /zookeeper/config."""
        role = "observer" if self.observer else "participant"
        addresses = sorted(self.addresses) if self.others else self.addresses
        text = "|".join(f"{bracketed(host)}:{quorum}:{election}" for host, quorum, election in addresses) + f":{role}"
        if self.client_port is None:
            return text
        return f"{text};{bracketed(self.client_host or '0.0.0.0')}:{self.client_port}"


def bracketed(host: str) -> str:
    """Return a host in the form needed before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _fields(text: str) -> list[str]:
    """Split a string at colons, but not inside [IPv6]."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError("a [ without its ]")
        return [host, *(rest[1:].split(":") if rest else [])]
    return text.split(":")


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= 65535:
        raise ValueError(f"{text!r} is no port")
    return int(text)


def _address(text: str) -> tuple[Address, str]:
    """Parse one address and the role after it; return both, with an empty role if there is none."""
    fields = _fields(text.strip())
    if not 3 <= len(fields) <= 4 or not fields[0]:
        raise ValueError("expected host:quorumPort:electionPort[:role]")
    role = fields[3].strip().lower() if len(fields) == 4 else ""
    if role not in ("", "participant", "observer"):
        raise ValueError(f"{fields[3]!r} is neither participant nor observer")
    return Address(_host(fields[0]), _port(fields[1]), _port(fields[2])), role


def _host(text: str) -> str:
    """Parse a host name or address.

    Characters that end a line or begin another one are rejected, because other servers could not parse the membership.
    """
    if not text.isprintable() or any(char in text for char in " \\[]"):
        raise ValueError(f"{text!r} is no host")
    return text


def parse_server_line(text: str) -> ServerLine:
    """Parse the value of a `server.N` line. Raises ValueError with the reason."""
    quorum, semicolon, client = text.partition(";")
    parts = [_address(part) for part in quorum.split("|")]
    roles = {role for _, role in parts if role}
    if len(roles) > 1:
        raise ValueError("its addresses have different roles")
    client_host, client_port = "", None
    if semicolon:
        *host, port = _fields(client.strip())
        if len(host) > 1:
            raise ValueError("expected [host:]clientPort behind the semicolon")
        client_host, client_port = _host(host[0] if host else ""), _port(port)
    first, *others = [address for address, _ in parts]
    return ServerLine(*first, "observer" in roles, client_host, client_port, tuple(others))
