"""Availability and lost records of a simulated run, computed by brute force from entries in the true order.

This code is independent of the tables' code. It iterates over the entries in the order in which they happened, keeps
the state of all partitions and processes, and adds up the time between entries.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from zabka.journal import events as e
from zabka.journal.events import Entry
from zabka.journal.reader import read_file

Partition = tuple[str, int]
STATES = (
    "observed", "offline", "leader_down", "under_min_isr", "isr_stalled", "under_replicated", "available_acks_1",
    "available_acks_all", "planned", "unseen",
)  # fmt: skip
_WRITABLE = {
    "available": ("available_acks_1", "available_acks_all"),
    "under_min_isr": ("available_acks_1",),
    "isr_stalled": ("available_acks_1",),
}


class Standing:
    """The state on which the availability of partitions depends, and the time spent in each availability state."""

    def __init__(self) -> None:
        self.leaders: dict[Partition, tuple[int, int, list[int]]] = {}
        """(Partition epoch, leader, ISR) of each partition."""
        self.cuts: dict[str, set[str]] = {}
        self.replicas: dict[Partition, int] = {}
        self.not_running: dict[int, str] = {}
        self.min_isr: dict[str, int] = {}
        self.paused: dict[str, str] = {}
        self.spent_us: dict[Partition, dict[str, int]] = defaultdict(lambda: dict.fromkeys(STATES, 0))

    def pass_time(self, length_us: int, unseen: set[int]) -> None:
        for name, (_, leader, isr) in self.leaders.items():
            state = "available"
            if leader < 0:
                state = "offline"
            elif leader in unseen:
                state = "unseen"
            elif leader in self.not_running:
                state = self.not_running[leader]
            elif len(isr) < min(self.min_isr.get(name[0], 1), self.replicas[name]):
                state = "under_min_isr"
            elif any(member in self.not_running or self._is_cut_off(leader, member) for member in isr):
                state = "isr_stalled"
            spent = self.spent_us[name]
            for part in (() if state == "available" else (state,), _WRITABLE.get(state, ())):
                for each in part:
                    spent[each] += length_us
            if state not in ("planned", "unseen"):
                spent["observed"] += length_us
                spent["under_replicated"] += length_us if len(isr) < self.replicas[name] else 0

    def _is_cut_off(self, leader: int, member: int) -> bool:
        return {f"broker-{leader}", f"broker-{member}"} in self.cuts.values()

    def take(self, entry: Entry) -> None:
        role, _, number = entry.node.rpartition("-")
        if entry.node in self.paused.values():
            # A frozen node writes no entries, so the pause has ended.
            self.paused = {fault: node for fault, node in self.paused.items() if node != entry.node}
            self.not_running.pop(int(number), None)
        match entry.event:
            case e.LeaderElected() | e.IsrChanged() as told:
                name = (told.topic, told.partition)
                if isinstance(told, e.LeaderElected):
                    self.replicas[name] = len(told.replicas)
                if name not in self.leaders or told.partition_epoch >= self.leaders[name][0]:
                    self.leaders[name] = (told.partition_epoch, told.leader, told.isr)
            case e.TopicDeleted(topic=topic):
                self.leaders = {name: state for name, state in self.leaders.items() if name[0] != topic}
            case e.ConfigChanged(entity=entity, config=config) if entity.startswith("topics/"):
                self.min_isr[entity[7:]] = int(config.get("min.insync.replicas", "1"))
            case e.NodeStarted() if role == "broker":
                self.not_running.pop(int(number), None)
            case e.NodeStopped() if role == "broker":
                self.not_running[int(number)] = "planned"
            case e.FaultInjected(kind="cut", source=source, target=target, fault_id=fault):
                self.cuts[fault] = {source, target}
            case e.FaultRemoved(fault_id=fault) if fault in self.cuts:
                del self.cuts[fault]
            case e.FaultInjected(kind=kind, source=source, target=target, fault_id=fault):
                if source == target and target.startswith("broker-") and kind in ("crash", "power_loss", "pause"):
                    self.not_running[int(target[7:])] = "leader_down"
                    if kind == "pause":
                        self.paused[fault] = target


def unseen_exits(entries: list[Entry]) -> list[tuple[int, int, int]]:
    """Return the process exits that no event reports, as (broker, time of its last entry, time of its next start)."""
    last_seen: dict[str, int] = {}
    silent: set[str] = set()
    found = []
    for entry in entries:
        if isinstance(entry.event, e.NodeStarted) and entry.node in last_seen and entry.node not in silent:
            found.append((int(entry.node.rpartition("-")[2]), last_seen[entry.node], entry.mono_us))
        last_seen[entry.node] = entry.mono_us
        silent.discard(entry.node)
        match entry.event:
            case e.NodeStopped():
                silent.add(entry.node)
            case e.FaultInjected(kind="crash" | "power_loss" | "pause", source=source, target=target):
                if source == target:
                    silent.add(target)
    return [each for each in found if each[2] > each[1]]


def availability(path: Path) -> dict[Partition, dict[str, float]]:
    """Return how many milliseconds each partition spent in each state."""
    standing = Standing()
    entries = list(read_file(path))
    ends = unseen_exits([entry for entry in entries if entry.node.startswith(("broker-", "world"))])
    now = 0
    for entry in entries:
        unseen = {broker for broker, last, start in ends if last <= now and entry.mono_us <= start}
        standing.pass_time(entry.mono_us - now, unseen)
        now = entry.mono_us
        standing.take(entry)
    return {
        name: {state: us / 1000 for state, us in spent.items()} for name, spent in sorted(standing.spent_us.items())
    }


def lost_offsets(path: Path) -> dict[tuple[str, int, str], list[int]]:
    """Return the offsets that brokers reported as lost, without duplicates, keyed by partition and topic id."""
    found: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for entry in read_file(path):
        if isinstance(entry.event, e.RecordsLost):
            loss = entry.event
            offsets = range(loss.first_offset, loss.last_offset + 1)
            found[loss.topic, loss.partition, loss.topic_id].update(offsets)
    return {name: sorted(offsets) for name, offsets in sorted(found.items())}


def committed_offsets(path: Path) -> dict[tuple[str, int, str], int]:
    """Return how many lost offsets are known to have been committed, keyed by partition and topic id.

    An offset is committed if the replica that lost it reported so, or if it is below a high watermark that any replica
    reported in the leader epoch of the last lost record. A high watermark reported by a leader always counts. A high
    watermark reported by a follower counts only if it is higher than the follower's previous one.
    """
    marks: dict[tuple[str, int, str, int], int] = {}
    roles: dict[tuple[str, str, int], tuple[tuple[str, int, str, int], int]] = {}
    """The key in `marks` of each replica's current role, and its last reported high watermark.

    The initial value is -1 for a leader, so that its first report counts, and very high for a follower, so that its
    first report does not count.
    """
    losses: list[e.RecordsLost] = []
    for entry in read_file(path):
        match entry.event:
            case e.LeadershipTaken() as taken:
                key = (taken.topic, taken.partition, taken.topic_id, taken.leader_epoch)
                marks[key] = max(marks.get(key, 0), taken.high_watermark)
                roles[entry.node, taken.topic, taken.partition] = key, -1
            case e.FollowershipTaken() as taken:
                key = (taken.topic, taken.partition, taken.topic_id, taken.leader_epoch)
                roles[entry.node, taken.topic, taken.partition] = key, 1 << 62
            case e.ReplicaProgressed(replicas=replicas):
                for topic, partition, mark, _ in replicas:
                    if (role := roles.get((entry.node, topic, partition))) is not None:
                        key, before = role
                        if mark > before:
                            marks[key] = max(marks.get(key, 0), mark)
                        roles[entry.node, topic, partition] = key, mark
            case e.RecordsLost() as loss:
                losses.append(loss)
    found: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for loss in losses:
        mark = marks.get((loss.topic, loss.partition, loss.topic_id, loss.leader_epoch), 0)
        end = max(loss.first_offset + loss.committed_at_least, min(mark, loss.last_offset + 1))
        found[loss.topic, loss.partition, loss.topic_id].update(range(loss.first_offset, end))
    return {name: len(offsets) for name, offsets in sorted(found.items())}
