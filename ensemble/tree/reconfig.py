"""Requests to change the membership: computes the new membership, or the error (PrepRequestProcessor, reconfig).

An incremental request lists servers that join (or whose line changes) and ids of servers that leave; it requires
majority quorums. Any other request contains the whole new membership, which may have groups and weights.
"""

from __future__ import annotations

from ipaddress import ip_address

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import PeerId, Zxid
from zabka.ensemble.properties import BadProperties, read_properties, trimmed
from zabka.ensemble.records import ReconfigRequest
from zabka.ensemble.zab.application import EnsembleView
from zabka.ensemble.zab.membership import (
    PEER_ID_MAX,
    BadMembership,
    Membership,
    NoNumber,
    membership_from,
    peer_id_of,
    read_line,
)
from zabka.ensemble.zab.server_line import ServerLine


def new_membership(request: ReconfigRequest, zxid: Zxid, ensemble: EnsembleView) -> Membership | ErrorCode:
    """Return the requested membership, whose version is the transaction's zxid, or an error.

    If several errors apply, the first one in ZooKeeper's order is returned: another reconfiguration in progress, wrong
    version, unreadable, too small, no quorum in sync.
    """
    last_seen = ensemble.last_seen
    voters_min = 2 if ensemble.standalone_enabled else 1
    if last_seen.version != ensemble.current.version:
        return ErrorCode.RECONFIG_IN_PROGRESS
    if request.config_id not in (-1, last_seen.version):
        return ErrorCode.BAD_VERSION
    try:
        if request.new_members is not None:
            membership = _whole(_text(request.new_members), zxid)
            if membership.observers and len(membership.voters) < voters_min:
                return ErrorCode.MARSHALLING_ERROR
        elif last_seen.hierarchical:
            return ErrorCode.BAD_ARGUMENTS
        else:
            membership = _changed(last_seen, _text(request.joining or b""), _text(request.leaving or b""), zxid)
    except (NoNumber, BadProperties):
        return ErrorCode.MARSHALLING_ERROR
    except BadMembership:
        return ErrorCode.BAD_ARGUMENTS
    if len(membership.voters) < voters_min:
        return ErrorCode.BAD_ARGUMENTS
    if not membership.quorum.contains(dict.fromkeys(ensemble.synced)):
        return ErrorCode.NEW_CONFIG_NO_QUORUM
    return membership


def can_start(membership: Membership, ensemble: EnsembleView) -> bool:
    """Return whether servers could restart with this membership.

    A restart fails if an id is above PEER_ID_MAX, or if a server has several addresses although multiAddress.enabled is
    not set. A ZooKeeper reconfig accepts both; ZooKeeper servers then start with such ids, but not with such addresses.
    """
    return all(
        peer <= PEER_ID_MAX and (ensemble.several_addresses or not line.others)
        for peer, line in membership.lines.items()
    )


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadMembership("no text") from None


def _whole(members: str, zxid: Zxid) -> Membership:
    """Parse a complete membership, whose lines may be separated by commas."""
    membership = membership_from(trimmed(read_properties(members.replace(",", "\n"))))
    for peer, line in membership.lines.items():
        _check_ports(peer, line)
    return membership.with_version(zxid)


def _changed(before: Membership, joining: str, leaving: str, zxid: Zxid) -> Membership:
    lines = dict(before.lines)
    for number in _parts(leaving, ","):
        lines.pop(peer_id_of("leaving", number), None)
    for joiner in _parts(joining, ","):
        sides = _parts(joiner, "=")
        if len(sides) != 2:
            raise BadMembership(f"{joiner!r} is no server")
        name, spec = sides
        peer = peer_id_of(name, name.rpartition(".")[2])
        line = read_line(name, spec)
        if line.client_port is None:
            raise BadMembership(f"server {peer} has no client port")
        _check_ports(peer, line)
        for other, known in lines.items():
            if other != peer and not _addresses(line).isdisjoint(_addresses(known)):
                raise BadMembership(f"servers {peer} and {other} share an address")
        lines[peer] = line
    return Membership.of_servers(lines, zxid)


def _parts(text: str, separator: str) -> list[str]:
    """Return the non-empty parts of a string (StringUtils.split)."""
    return [part.strip() for part in text.split(separator) if part.strip()]


def _check_ports(peer: PeerId, line: ServerLine) -> None:
    if line.quorum_port == line.election_port:
        raise BadMembership(f"server {peer} uses port {line.quorum_port} twice")


def _addresses(line: ServerLine) -> frozenset[tuple[str, int]]:
    """Return the addresses that identify a server, including ports, because many servers can share a loopback host."""
    quorum = [(line.host, line.quorum_port), (line.host, line.election_port)]
    client = [(line.client_host, line.client_port)] if line.client_port is not None else []
    return frozenset((host, port) for host, port in quorum + client if not _shared(host))


def _shared(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return host in ("", "localhost")
    return address.is_loopback or address.is_unspecified
