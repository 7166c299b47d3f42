"""The state of a live cluster, and the part of it that a mirrored world has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from zabka.ensemble.runtime.client_end import client_end
from zabka.ensemble.runtime.link_fault import ANY, LinkFault
from zabka.simulation.cluster.node_names import broker_name, peer_name
from zabka.simulation.settings import WorkloadSettings, WorldSettings

PARTITIONS_MAX = 60
"""Maximum number of partitions of a mirrored world. More would leave no time to run futures."""
LAG_MAX = 200
"""Maximum number of records by which a replica of a mirrored world is behind its leader."""
ENSEMBLE_KEYS = {"tickTime": "tick_time_ms", "initLimit": "init_limit", "syncLimit": "sync_limit"}
TIMEOUT_KEYS = {
    "zookeeper.session.timeout.ms": "session_timeout_ms",
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
}
BROKER_KEYS = (
    "min.insync.replicas", "unclean.leader.election.enable", "replica.socket.timeout.ms",
    "controller.socket.timeout.ms", "replica.fetch.wait.max.ms",
)  # fmt: skip
"""Settings of brokers that decide which replica leads, and when."""
TOPIC_KEYS = ("min.insync.replicas", "unclean.leader.election.enable")
RUNNING, PAUSED, DOWN = "running", "paused", "down"


class NoMirror(Exception):
    """No world can be built that has this state. The message is the reason."""


class LiveNode(msgspec.Struct, frozen=True):
    """A peer or a broker: its process is running, paused, down or unknown."""

    id: int
    process: str
    observer: bool = False
    registered: bool = True
    """Whether a broker is registered in ZooKeeper."""


class LivePartition(msgspec.Struct, frozen=True):
    """A partition as ZooKeeper and the brokers report it."""

    number: int
    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    log_ends: dict[int, int] = {}
    """Log end offset of each replica, as far as it is known."""

    def lag(self, broker: int) -> int:
        """Return the number of records that a replica lacks; 0 if it is unknown."""
        end = self.log_ends.get(self.leader, 0)
        return max(0, end - self.log_ends.get(broker, end))


class LiveTopic(msgspec.Struct, frozen=True):
    """A topic with its overrides and partitions."""

    name: str
    config: dict[str, str]
    partitions: tuple[LivePartition, ...]


class LiveState(msgspec.Struct, frozen=True):
    """The state of a live cluster at the time `read_at_us` of the API's clock."""

    read_at_us: int
    peers: tuple[LiveNode, ...]
    zab_leader: int
    brokers: tuple[LiveNode, ...]
    controller: int
    ensemble_keys: dict[str, str]
    broker_keys: dict[str, str]
    topics: tuple[LiveTopic, ...]
    faults: tuple[LinkFault, ...] = ()
    unread: tuple[str, ...] = ()
    """What could not be read, or is not part of a mirrored world, in a sentence each."""


class Mirrored(NamedTuple):
    """The part of a live state that a mirrored world has, with the world's own numbers of nodes.

    Brokers and peers of a world are numbered from 1. The leader of the ensemble has the highest number, because that
    peer wins the first election.
    """

    settings: WorldSettings
    peers: dict[int, int]
    """Number in the world of each live voter."""
    brokers: dict[int, int]
    state: LiveState
    topics: tuple[LiveTopic, ...]
    """The topics of the world, still with the live numbers of the brokers."""
    faults: tuple[LinkFault, ...]
    limits: tuple[str, ...]
    """What was not taken over, in a sentence each."""

    def name(self, node: str) -> str:
        """Return the world's name of a live node."""
        kind, _, number = node.rpartition("-")
        return peer_name(self.peers[int(number)]) if kind == "peer" else broker_name(self.brokers[int(number)])

    def replicas(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Return the world's numbers of live brokers."""
        return tuple(self.brokers[each] for each in ids)


def mirrored(state: LiveState, killed: str, acks: int) -> Mirrored:
    """Return the part of a live state that a world has in which the node `killed` will be killed.  Raises NoMirror."""
    voters = sorted(each.id for each in state.peers if not each.observer)
    _check(state, killed, voters)
    processes = {each.id: each.process for each in state.peers}
    # A peer that is down never wins an election, so its number must be lower than the leader's, too.
    ranked = sorted(voters, key=lambda each: (each == state.zab_leader, processes[each] == RUNNING, each))
    brokers = {each: number for number, each in enumerate(sorted(each.id for each in state.brokers), 1)}
    topics, limits = _topics(state, killed, brokers)
    faults, unlinked = _faults(state)
    settings = msgspec.structs.replace(
        WorldSettings(
            peers=len(voters),
            brokers=len(brokers),
            workload=WorkloadSettings(acks=acks, draws_topics=False),
            broker_keys={key: state.broker_keys[key] for key in BROKER_KEYS if key in state.broker_keys},
        ),
        **{field: int(state.ensemble_keys[key]) for key, field in ENSEMBLE_KEYS.items() if key in state.ensemble_keys},
        **{field: int(state.broker_keys[key]) for key, field in TIMEOUT_KEYS.items() if key in state.broker_keys},
    )
    observers = [peer_name(each.id) for each in state.peers if each.observer]
    every = [
        *state.unread, *limits, *unlinked,
        *([f"Observers, which do not vote: {', '.join(observers)}."] if observers else []),
        "Contents and sizes of logs: each replica has a few records, and out-of-sync replicas their lag.",
        "Consumer groups, transactions and internal topics.",
        "The load: each topic has one producer that sends a record every 100 ms.",
        "The machines: disks, memory, the network's speed and the sharing of hosts by nodes.",
    ]  # fmt: skip
    peers = {each: number for number, each in enumerate(ranked, 1)}
    return Mirrored(settings, peers, brokers, state, topics, faults=faults, limits=tuple(every))


def _check(state: LiveState, killed: str, voters: list[int]) -> None:
    if state.controller < 0:
        raise NoMirror("the cluster has no controller now. Ask again after the election")
    if state.zab_leader not in voters:
        raise NoMirror("the ensemble has no known leader now. Ask again after the election")
    nodes = {
        **{peer_name(each.id): each for each in state.peers},
        **{broker_name(each.id): each for each in state.brokers},
    }
    node = nodes.get(killed)
    if node is None:
        raise NoMirror(f"there is no node {killed}; there are {', '.join(nodes)}")
    if node.observer:
        raise NoMirror(f"{killed} is an observer: it has no vote, so no leader depends on it")
    if node.process not in (RUNNING, "unknown"):
        raise NoMirror(f"{killed} is {node.process} already")
    running = [each for each in state.peers if not each.observer and each.process in (RUNNING, "unknown")]
    if len(running) <= len(voters) // 2:
        raise NoMirror("the ensemble has no quorum now")


def _topics(state: LiveState, killed: str, brokers: dict[int, int]) -> tuple[tuple[LiveTopic, ...], list[str]]:
    """Return the topics of the world, those that the killed node affects first, and what was left out."""
    limits: list[str] = []
    found: list[tuple[int, LiveTopic]] = []
    leaderless: list[str] = []
    unknown: list[str] = []
    for topic in state.topics:
        if topic.name.startswith("__"):
            continue
        if any(set(each.replicas) - set(brokers) for each in topic.partitions):
            unknown.append(topic.name)
            continue
        kept = tuple(each for each in topic.partitions if each.leader in brokers)
        leaderless += [f"{topic.name}-{each.number}" for each in topic.partitions if each.leader not in brokers]
        if kept:
            affected = sum(broker_name(each.leader) == killed for each in kept)
            found.append((-affected, LiveTopic(topic.name, topic.config, kept)))
    found.sort(key=lambda each: (each[0], each[1].name))
    topics, count = [], 0
    for _, topic in found:
        rest = topic.partitions[: PARTITIONS_MAX - count]
        if rest:
            topics.append(LiveTopic(topic.name, topic.config, rest))
        count += len(rest)
    total = sum(len(topic.partitions) for _, topic in found)
    if total > count:
        limits.append(f"{total - count} of {total} partitions: a forecast has at most {PARTITIONS_MAX}.")
    if leaderless:
        limits.append(f"Partitions that have no leader already: {_listed(leaderless)}.")
    if unknown:
        limits.append(f"Topics with a replica on a broker that does not exist: {_listed(unknown)}.")
    left = sorted({key for topic in topics for key in topic.config if key not in TOPIC_KEYS})
    if left:
        limits.append(f"Overrides of topics that do not decide who leads: {_listed(left)}.")
    capped = [f"{topic.name}-{each.number}" for topic in topics for each in topic.partitions
              if any(each.lag(broker) > LAG_MAX for broker in each.replicas if broker not in each.isr)]  # fmt: skip
    if capped:
        limits.append(f"More than {LAG_MAX} records of lag: {_listed(capped)}.")
    return tuple(topics), limits


def _faults(state: LiveState) -> tuple[tuple[LinkFault, ...], list[str]]:
    """Return the link faults between two nodes of the world, and what was left out."""
    nodes = {peer_name(each.id) for each in state.peers if not each.observer}
    nodes |= {broker_name(each.id) for each in state.brokers}
    kept = tuple(each for each in state.faults if each.source in nodes and each.target in nodes)
    others = [f"{each.kind} of {_end(each.source)} to {_end(each.target)}" for each in state.faults if each not in kept]
    return kept, [f"Faults of other links: {_listed(others)}."] if others else []


def _end(name: str) -> str:
    return "all nodes" if name == ANY else "clients" if client_end(name) is not None else name


def _listed(names: list[str], shown: int = 5) -> str:
    return ", ".join([*names[:shown], *([f"{len(names) - shown} more"] if len(names) > shown else [])])


def held_out(topics: Iterable[LiveTopic], running: Iterable[int]) -> Iterator[tuple[LiveTopic, LivePartition, int]]:
    """Yield each replica on a running broker that is not in its partition's ISR."""
    there = set(running)
    for topic in topics:
        for each in topic.partitions:
            yield from ((topic, each, broker) for broker in each.replicas if broker in there and broker not in each.isr)
