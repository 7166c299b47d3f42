"""Plans a local cluster, from the requested options, the data directory's topology, and free ports."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import msgspec

from zabka.compose.config_keys import Overrides
from zabka.compose.ports import PortTaken, is_free, is_ours, pick_block
from zabka.compose.topology import NODES_MAX, PROFILES, BrokerSpec, HostSpec, PeerSpec, Topology, reachable

LOOPBACK = "127.0.0.1"
_ELSEWHERE = {"0.0.0.0": (socket.AF_INET, "192.0.2.1"), "::": (socket.AF_INET6, "2001:db8::1")}
"""For each wildcard address, its address family and a remote address (RFC 5737, RFC 3849).

The remote address is used to find the local address from which this machine reaches other machines.
"""
DEFAULT_ZK_PORT = 2181
DEFAULT_KAFKA_PORT = 9092
DEFAULT_API_PORT = 8080
HOST = "host-1"


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `up`. None means the value of the data directory's existing topology, or else the default.

    Port 0 means that `up` picks a port.
    """

    peers: int | None = None
    observers: int | None = None
    brokers: int | None = None
    host: str | None = None
    api_port: int | None = None
    zk_port: int | None = None
    kafka_port: int | None = None
    profile: str | None = None
    advertised: Mapping[int, str] = {}
    """HOST:PORT of every broker, if clients connect through a proxy. The brokers then advertise it on a second
    listener.
    """
    secure: bool | None = None
    """Whether connections are encrypted and clients authenticate."""
    second_listener: bool = False
    """Whether each broker has a second listener, at the same address as the first. Its protocol is in the settings."""
    overrides: Overrides = Overrides({}, {})


class BadPlan(ValueError):
    """The requested options cannot be satisfied. The message is the reason."""


def plan(wanted: Requested, before: Topology | None, within: range | None = None) -> Topology:
    """Return the topology for these options, based on the existing topology of the data directory.

    If `within` is given, picked ports come from that range. Raises BadPlan if the options are invalid, PortTaken if a
    requested port is in use.
    """
    peers = _count("--peers", wanted.peers, 3 if before is None else sum(not p.observer for p in before.peers), 1)
    observers = _count("--observers", wanted.observers, 0 if before is None else _observers(before), 0)
    brokers = _count("--brokers", wanted.brokers, 3 if before is None else len(before.brokers), 0)
    if before is not None:
        _same_ensemble(before, peers)
    profile = wanted.profile or (before.profile if before else "default")
    if profile not in PROFILES:
        raise BadPlan(f"--profile is one of {', '.join(PROFILES)}, not {profile!r}")
    bind = wanted.host or (before.api_bind if before else LOOPBACK)
    if not is_ours(bind):
        raise BadPlan(f"--host {bind}: this machine has no such address")
    book = _Ports(bind, within)
    zk_port = book.block("the peers' client ports (--zk-port)", wanted.zk_port, peers + observers,
                         before.peers[0].client_port if before else DEFAULT_ZK_PORT, before is None)  # fmt: skip
    kafka_base = before.brokers[0].port if before and before.brokers else DEFAULT_KAFKA_PORT
    kafka_port = book.block("the brokers (--kafka-port)", wanted.kafka_port, brokers, kafka_base, before is None)
    api_port = book.block("the dashboard (--port)", wanted.api_port, 1,
                          before.api_port if before else DEFAULT_API_PORT, before is None)  # fmt: skip
    inner = book.inner(2 * (peers + observers) + 1, before)
    advertised = _advertised(bind)
    peer_specs = [
        PeerSpec(
            i,
            host=HOST,
            address=LOOPBACK,
            bind=bind,
            client_port=zk_port + i - 1,
            quorum_port=inner[2 * i - 1],
            election_port=inner[2 * i],
            observer=i > peers,
        )
        for i in range(1, peers + observers + 1)
    ]
    broker_specs = [BrokerSpec(i, HOST, bind, advertised, kafka_port + i - 1) for i in range(1, brokers + 1)]
    if wanted.advertised:
        broker_specs = _with_proxies(broker_specs, wanted.advertised, book)
    elif wanted.second_listener:
        broker_specs = _with_second_listeners(broker_specs, book)
    if not _answers_on_loopback(bind):
        peer_specs = [msgspec.structs.replace(p, address=reachable(bind)) for p in peer_specs]
    names = [p.name for p in peer_specs] + [b.name for b in broker_specs]
    return Topology(
        peers=peer_specs,
        brokers=broker_specs,
        hosts=[HostSpec(HOST, LOOPBACK, LOOPBACK, inner[0], names, runs_api=True)],
        api_bind=bind,
        api_port=api_port,
        profile=profile,
        zookeeper=_merged(before.zookeeper if before else {}, wanted.overrides.zookeeper),
        kafka=_merged(before.kafka if before else {}, wanted.overrides.kafka),
        secure=bool(before and before.secure) if wanted.secure is None else wanted.secure,
    )


def _with_proxies(brokers: list[BrokerSpec], advertised: Mapping[int, str], book: _Ports) -> list[BrokerSpec]:
    """Return the brokers with a second listener that advertises these addresses. Raises BadPlan."""
    if advertised.keys() != {broker.id for broker in brokers}:
        raise BadPlan(f"advertised addresses are for brokers 1 to {len(brokers)}, not {sorted(advertised)}")
    first = book.block("the brokers' second listeners", 0, len(brokers), 0, True)
    return [
        msgspec.structs.replace(broker, external=host, external_port=port, external_bind_port=first + place)
        for place, broker in enumerate(brokers)
        for host, port in [_host_and_port(advertised[broker.id])]
    ]


def _with_second_listeners(brokers: list[BrokerSpec], book: _Ports) -> list[BrokerSpec]:
    """Return the brokers with a second listener at the address of the first one."""
    first = book.block("the brokers' second listeners", 0, len(brokers), 0, True)
    return [
        msgspec.structs.replace(broker, external=broker.advertised, external_port=first + place)
        for place, broker in enumerate(brokers)
    ]


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= 65_535:
        raise BadPlan(f"{address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _count(option: str, wanted: int | None, otherwise: int, least: int) -> int:
    count = otherwise if wanted is None else wanted
    if not least <= count <= NODES_MAX:
        raise BadPlan(f"{option} takes {least} to {NODES_MAX}, not {count}")
    return count


def _observers(topology: Topology) -> int:
    return sum(p.observer for p in topology.peers)


def _same_ensemble(before: Topology, peers: int) -> None:
    voters = sum(not p.observer for p in before.peers)
    if voters != peers:
        # Reject another number of voters: new, empty voters could form a quorum without the voters that have the
        # history, so data would be lost.
        raise BadPlan(
            f"this data directory holds an ensemble of {voters} peers, not {peers}: a different number would put its "
            f"history at risk. Choose another --data, or leave --peers away"
        )


def _merged(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in {**before, **now}.items() if value}


def _answers_on_loopback(bind: str) -> bool:
    """Return whether a server bound to this address is also reachable at 127.0.0.1.

    A server bound to another loopback address is not reachable there. A socket that asyncio binds to `::` accepts only
    IPv6.
    """
    return bind in (LOOPBACK, "localhost", "0.0.0.0")


def _advertised(bind: str) -> str:
    if bind not in _ELSEWHERE:
        return bind
    family, elsewhere = _ELSEWHERE[bind]
    # Connecting a datagram socket sends no packet. It only asks the kernel which local address it would use.
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return reachable(bind)


class _Ports:
    """Assigns ports to nodes, each port at most once."""

    def __init__(self, bind: str, within: range | None) -> None:
        self._bind = bind
        self._within = within
        self._given: set[int] = set()

    def block(self, what: str, wanted: int | None, count: int, otherwise: int, fresh: bool) -> int:
        """Return `count` consecutive ports for one kind of server.

        Requested ports and the defaults must be free. If any ports can be used (`wanted` is 0), return those of an
        earlier run if they are still free, otherwise other free ports.
        """
        if count == 0:
            return otherwise
        if wanted is not None and not 0 <= wanted <= 65_535:
            raise BadPlan(f"{wanted} is not a port")
        first = otherwise if wanted is None else wanted
        if wanted == 0:
            first = 0 if fresh or not self._all_free(otherwise, count) else otherwise
        if first == 0:
            first = pick_block(self._bind, count, self._given, self._within)
        if first + count > 65_536:
            raise BadPlan(f"{count} ports from {first} on do not fit, for {what}")
        for port in range(first, first + count):
            if port in self._given:
                raise BadPlan(f"port {port} is requested twice, also for {what}")
            if not is_free(self._bind, port):
                raise PortTaken(self._bind, port, what)
        self._given.update(range(first, first + count))
        return first

    def _all_free(self, first: int, count: int) -> bool:
        block = range(first, first + count)
        return self._given.isdisjoint(block) and all(is_free(self._bind, port) for port in block)

    def inner(self, count: int, before: Topology | None) -> list[int]:
        """Return ports for internal use: the ports of the existing topology if they are still free, else new ports."""
        kept: list[int] = []
        if before is not None:
            kept = [before.hosts[0].agent_port]
            for peer in before.peers:
                kept += [peer.quorum_port, peer.election_port]
        ports = []
        for i in range(count):
            port = kept[i] if i < len(kept) else 0
            if not port or port in self._given or not is_free(LOOPBACK, port):
                port = pick_block(LOOPBACK, 1, self._given, self._within)
            self._given.add(port)
            ports.append(port)
        return ports
