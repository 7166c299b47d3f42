"""One version of the ensemble's membership: the servers, their roles and addresses, and the quorums.

ZooKeeper calls it a dynamic configuration (QuorumVerifier, QuorumPeerConfig.parseDynamicConfig). Its text contains one
`server.N=...` per line, `group.N` and `weight.N` for hierarchical quorums, and finally `version=` in hexadecimal: the
zxid of the transaction that created it. /zookeeper/config contains this text, and peers send it to each other.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from zabka.ensemble.ids import PeerId
from zabka.ensemble.properties import BadProperties, read_properties, trimmed
from zabka.ensemble.zab.quorum import HierarchicalQuorum, Quorum, QuorumSystem
from zabka.ensemble.zab.server_line import ServerLine, parse_server_line

PEER_ID_MAX = 255
"""Maximum server id.

ZooKeeper accepts any number, but a session id begins with the lowest eight bits of its server's id. For servers 256 and
0 these bits are the same, so both could assign the same id to two sessions.
"""
_NUMBER_MAX = 2**63 - 1
_DIGITS_MAX = 100


class BadMembership(ValueError):
    """An invalid membership; the message gives the reason in one line."""


class NoNumber(BadMembership):
    """A string is not a number where a number is expected. ZooKeeper reports this as a separate error."""


class Membership(msgspec.Struct, frozen=True):
    """One version of the membership. `lines` is empty if addresses are not needed; roles are always known."""

    version: int
    voters: tuple[PeerId, ...]
    observers: tuple[PeerId, ...] = ()
    lines: Mapping[PeerId, ServerLine] = {}
    groups: Mapping[int, tuple[PeerId, ...]] = {}
    weights: Mapping[PeerId, int] = {}

    @classmethod
    def of_servers(
        cls,
        lines: Mapping[PeerId, ServerLine],
        version: int,
        groups: Mapping[int, tuple[PeerId, ...]] | None = None,
        weights: Mapping[PeerId, int] | None = None,
    ) -> Membership:
        """Create a membership from the `server.N` lines, keyed by id, which contain the roles."""
        return cls(
            version=version,
            voters=tuple(i for i in sorted(lines) if not lines[i].observer),
            observers=tuple(i for i in sorted(lines) if lines[i].observer),
            lines={i: lines[i] for i in sorted(lines)},
            groups=dict(groups or {}),
            weights=dict(weights or {}),
        )

    @classmethod
    def parse(cls, text: str) -> Membership:
        """Parse the text of a membership. Raises BadMembership."""
        try:
            return membership_from(trimmed(read_properties(text)))
        except BadProperties as bad:
            raise BadMembership(str(bad)) from None

    @property
    def hierarchical(self) -> bool:
        """Whether the servers are in groups. Without groups, a majority of the voters is a quorum."""
        return bool(self.groups)

    @property
    def quorum(self) -> QuorumSystem:
        """The quorum system of this membership."""
        if self.hierarchical:
            return HierarchicalQuorum(self.groups, self.weights)
        return Quorum(self.voters)

    @property
    def text(self) -> str:
        """The membership in ZooKeeper's format; empty if there are no addresses."""
        if not self.lines:
            return ""
        out = [f"server.{i}={line.canonical()}" for i, line in self.lines.items()]
        out += [f"group.{group}={':'.join(map(str, peers))}" for group, peers in sorted(self.groups.items())]
        if self.hierarchical:
            out += [f"weight.{i}={self.weights.get(i, 1)}" for i in self.voters]
        return "\n".join([*out, f"version={self.version:x}"])

    def with_version(self, version: int) -> Membership:
        """Return the same membership with another version."""
        return msgspec.structs.replace(self, version=version)

    def same_servers(self, other: Membership) -> bool:
        """Return whether the memberships are equal except for the version and the notation of addresses."""
        return self.with_version(0).text == other.with_version(0).text


def membership_from(properties: Mapping[str, str]) -> Membership:
    """Return the membership given by these keys; any other key is rejected. Raises BadMembership."""
    lines: dict[PeerId, ServerLine] = {}
    groups: dict[int, tuple[PeerId, ...]] = {}
    weights: dict[PeerId, int] = {}
    version = 0
    for key, value in properties.items():
        prefix, _, number = key.partition(".")
        if prefix == "server":
            lines[_newpeer_id_of(key, number, lines)] = read_line(key, value)
        elif prefix == "group":
            groups[_number(key, number)] = tuple(peer_id_of(key, part) for part in value.split(":"))
        elif prefix == "weight":
            weights[peer_id_of(key, number)] = _number(f"{key}={value}", value)
        elif key == "version":
            version = _version(value)
        else:
            raise BadMembership(f"{key} is no key of an ensemble's configuration")
    membership = Membership.of_servers(lines, version, groups, weights)
    _check_groups(membership)
    return membership


def read_line(key: str, value: str) -> ServerLine:
    """Parse one `server.N` line. Raises BadMembership."""
    try:
        return parse_server_line(value)
    except ValueError as bad:
        raise BadMembership(f"{key}={value}: {bad}") from None


def _check_groups(membership: Membership) -> None:
    if not membership.groups and not membership.weights:
        return
    grouped = [peer for peers in membership.groups.values() for peer in peers]
    for peer in grouped:
        if peer not in membership.voters:
            raise BadMembership(f"server {peer} is in a group, but no participant")
        if grouped.count(peer) > 1:
            raise BadMembership(f"server {peer} is in multiple groups")
    for peer in membership.voters:
        if peer not in grouped:
            raise BadMembership(f"server {peer} is not in a group")
    if not any(membership.weights.get(peer, 1) for peer in membership.voters):
        raise BadMembership("every server has the weight 0")


def _number(what: str, text: str) -> int:
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MAX or int(digits) > _NUMBER_MAX:
        raise NoNumber(f"{what}: {text!r} is not a number")
    return int(digits)


def peer_id_of(key: str, text: str) -> PeerId:
    """Parse a server id; `key` is the key that contains it, for the error message. Raises NoNumber."""
    return PeerId(_number(key, text))


def _newpeer_id_of(key: str, text: str, known: Mapping[PeerId, ServerLine]) -> PeerId:
    peer_id = peer_id_of(key, text)
    if peer_id in known:
        raise BadMembership(f"{key}: two servers have the id {peer_id}")
    return peer_id


def _version(text: str) -> int:
    try:
        version = int(text, 16)
    except ValueError:
        raise BadMembership(f"version={text} is no hexadecimal number") from None
    if not -_NUMBER_MAX <= version <= _NUMBER_MAX:
        raise BadMembership(f"version={text[:40]} is no zxid")
    return version
