"""Derives a campaign from a live cluster: its number of nodes, its settings, and its faults.

All data comes from the journals: sizes and settings from the events of starting nodes, topics from the controller's
events, and faults, from start to end, from the events of host agents and the API. Values that journals do not contain
are not invented: comments in the campaign's file name the sources of its values, and the data that was left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import msgspec

from zabka.journal import events as e
from zabka.journal.events import Entry

_KINDS = {
    ("kill", "broker"): "crash_broker",
    ("kill", "peer"): "crash_peer",
    ("exited", "broker"): "crash_broker",
    ("exited", "peer"): "crash_peer",
    ("pause", "broker"): "pause",
    ("pause", "peer"): "pause",
    ("stop", "broker"): "stop_broker",
    ("cut", "link"): "cut_both_ways",
    ("cut one way", "link"): "cut_one_way",
    ("delay", "link"): "delay",
}
"""Name that each observed kind of fault has in the simulated world."""
_WORLD_KEYS = {"tickTime": "peer", "zookeeper.session.timeout.ms": "broker", "replica.lag.time.max.ms": "broker"}
_BROKER_KEYS = ("min.insync.replicas", "unclean.leader.election.enable")
LASTS_MS = (100, 9_000)


class Observed(msgspec.Struct):
    """What was observed: number of nodes, settings, topics by number of partitions and replicas, and faults with
    durations.
    """

    peers: int = 0
    brokers: int = 0
    settings: dict[str, str] = {}
    shapes: Counter[tuple[int, int]] = msgspec.field(default_factory=Counter)
    """Number of topics for each pair of partition count and replication factor."""
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    other_faults: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of observed faults of each kind that cannot be injected in the simulated world."""
    lasted_ms: list[int] = []
    first_us: int = 0
    last_us: int = 0

    @property
    def span_ms(self) -> int:
        """Time from the first event to the last, by wall clocks."""
        return (self.last_us - self.first_us) // 1000


class _Open(msgspec.Struct):
    began_us: int


def observe(entries: Iterable[Entry]) -> Observed:
    """Collect the observations from a cluster's entries, which are merged by their clocks."""
    seen = Observed()
    nodes: dict[str, dict[int, None]] = {"peer": {}, "broker": {}}
    running: dict[str, _Open] = {}
    for entry in entries:
        event = entry.event
        seen.first_us = seen.first_us or entry.wall_us
        seen.last_us = max(seen.last_us, entry.wall_us)
        if isinstance(event, e.NodeStarted) and event.role in nodes:
            nodes[event.role][event.id] = None
            _take_settings(seen, event)
        elif isinstance(event, e.TopicCreated) and not event.topic.startswith("__") and event.assignment:
            seen.shapes[len(event.assignment), max(map(len, event.assignment.values()))] += 1
        elif isinstance(event, e.ProcessChanged):
            _process(seen, running, entry, event)
        elif isinstance(event, e.FaultInjected):
            kind = "cut one way" if event.kind == "cut" and not event.both_ways else event.kind
            _began(seen, running, event.fault_id, (kind, "link"), entry.wall_us)
        elif isinstance(event, e.FaultRemoved):
            _ended(seen, running, event.fault_id, entry.wall_us)
    seen.peers, seen.brokers = len(nodes["peer"]), len(nodes["broker"])
    return seen


def _take_settings(seen: Observed, event: e.NodeStarted) -> None:
    for key, role in _WORLD_KEYS.items():
        if event.role == role and key in event.config:
            seen.settings[key] = event.config[key]
    for key in _BROKER_KEYS:
        if event.role == "broker" and key in event.config:
            seen.settings[key] = event.config[key]


def _process(seen: Observed, running: dict[str, _Open], entry: Entry, event: e.ProcessChanged) -> None:
    if event.process == "running":
        _ended(seen, running, event.target, entry.wall_us)
    else:
        _began(seen, running, event.target, (event.action, event.target.partition("-")[0]), entry.wall_us)


def _began(seen: Observed, running: dict[str, _Open], name: str, what: tuple[str, str], at_us: int) -> None:
    kind = _KINDS.get(what)
    if kind is None:
        seen.other_faults[" of a ".join(what)] += 1
    else:
        seen.faults[kind] += 1
        running[name] = _Open(at_us)


def _ended(seen: Observed, running: dict[str, _Open], name: str, at_us: int) -> None:
    began = running.pop(name, None)
    if began is not None:
        seen.lasted_ms.append(max(1, (at_us - began.began_us) // 1000))


def campaign_text(seen: Observed, source: str) -> str:
    """Return the text of a campaign file that compares session timeouts.

    The campaign's cluster and faults are like the observed ones.
    """
    shape, count = next(iter(seen.shapes.most_common(1)), ((2, min(3, seen.brokers)), 0))
    timeout_ms = int(seen.settings.get("zookeeper.session.timeout.ms", "6000"))
    tick_ms = int(seen.settings.get("tickTime", "500"))
    # Choose timeouts within 2 to 20 ticks, because ZooKeeper grants no others. Include the timeout of the
    # observed brokers.
    choices = sorted({max(2 * tick_ms, min(20 * tick_ms, timeout_ms * n // 4)) for n in (2, 4, 6, 8)} | {timeout_ms})
    lasted = sorted(seen.lasted_ms)
    lasts_ms = (lasted[len(lasted) // 10], lasted[len(lasted) * 9 // 10]) if lasted else LASTS_MS
    kinds = ",".join(f"{kind}:{number}" for kind, number in seen.faults.most_common()) or "crash_broker:1,pause:1"
    settings = {
        "peers": str(seen.peers),
        "brokers": str(seen.brokers),
        "num.partitions": str(shape[0]),
        "default.replication.factor": str(min(shape[1], seen.brokers)),
        **{key: value for key, value in seen.settings.items() if key != "zookeeper.session.timeout.ms"},
        "faults.kinds": kinds,
        "faults.lasts.ms": f"{lasts_ms[0]}-{max(lasts_ms)}",
        "faults.gap.ms": "4000",
        "drawn.topics": "false",
    }
    rests = _rests(seen, source, count)
    lines = [
        *(f"# {line}" for line in rests),
        f'question = "Which zookeeper.session.timeout.ms for a cluster such as {_plain(source)}?"',
        'seeds = "1-16"',
        'decide = "failover_ms"',
        'also = ["false_expiries", "client_availability", "lost_records"]',
        f'baseline = {{ "zookeeper.session.timeout.ms" = {timeout_ms} }}',
        "",
        "[settings]",
        *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in settings.items()),
        "",
        "[grid]",
        f'"zookeeper.session.timeout.ms" = [{", ".join(map(str, choices))}]',
    ]
    return "\n".join(lines) + "\n"


def _rests(seen: Observed, source: str, alike: int) -> list[str]:
    """Return comment lines that name the sources of the values in the campaign's file.

    `alike` is the number of topics that have the chosen number of partitions and replication factor.
    """
    span_s, faults = seen.span_ms / 1000, sum(seen.faults.values())
    rate = f"one every {span_s / faults:,.0f} s" if faults else "so that the kinds below are a guess"
    ended = len(seen.lasted_ms)
    return [
        f"Made of {_plain(source)}: {span_s:,.0f} s of journals of {seen.peers} peers and {seen.brokers} brokers.",
        f"Faults seen: {faults}, {rate}.  Here they come every 4 s, so that a run of 30 s has some: figures compare",
        "settings under such faults, and do not foretell a year.",
        f"Faults that ended: {ended}; the middle four fifths of their lengths are below."
        if ended
        else "No fault was seen to end, and so how long they last is a guess.",
        f"Topics of the shape below: {alike}." if alike else "No topic was seen, and so its shape is a guess.",
        *(f"Left out, for want of a simulated one: {kind}, {n} times." for kind, n in seen.other_faults.items()),
    ]


def _plain(source: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_./ " else "_" for letter in source)
