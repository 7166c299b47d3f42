"""Makes a script of the faults in a journal of real processes, so that they can be injected again.

The script is a scenario file as plain data: `scenario.read_scenario` reads it, and this module does not import the
simulated world. Its times are those of the journal, counted from the beginning of the recording.

    event in the journal             step
    fault_injected, cut or delay     Cut, Delay
    fault_removed                    Heal; other faults that `Heal` also ends are injected again
    process_changed                  Kill, Stop, Pause, Resume, Restart

Bandwidth limits, faults of clients and request faults have no step with the same effect from a journal alone. They are
listed as left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import Entry, FaultInjected, FaultRemoved, ProcessChanged
from zabka.simulation.scenarios.subjects import Subject

Step = dict[str, Any]
TOGETHER_US = 100_000
"""Faults that begin or end within this time, in microseconds, are steps of the same moment."""
ROUNDED_MS = 10
TOPICS_MAX = 5
TOPIC_PARTITIONS_MAX = 12
HYPOTHESIS = "After the last fault has ended, the cluster recovers, and no acknowledged record is lost."
_NOT_BY_HAND = ("scenario ", "shutdown of the host agent", "reset")
"""Beginnings of requesters whose actions are not recorded: they are part of another script, or of no script."""
_SUBJECTS: dict[Subject, frozenset[str]] = {
    "election": frozenset({"Kill", "Stop"}),
    "sessions": frozenset({"Pause"}),
    "network": frozenset({"Cut", "Delay"}),
}
_NODES = ("peer-", "broker-")
_GROUPS = {"*": ("peers", "brokers")}


class Recording(NamedTuple):
    """A recorded script as a scenario file, and descriptions of the faults that it leaves out."""

    scenario: dict[str, Any]
    left_out: list[str]


def recorded(
    entries: Iterable[Entry], before: ClusterState, *, name: str, from_us: int, to_us: int, peers: int, brokers: int,
    with_topics: bool = True,
) -> Recording:  # fmt: skip
    """Make a script of the faults that were injected by hand between two times.

    `before` is the cluster's state at the beginning. The topics of that state are created first if `with_topics`.
    """
    left_out: list[str] = []
    steps: list[Step] = [{"type": "Cast"}] if brokers else []
    if with_topics and brokers:
        steps += _topics(before, left_out)
    script = _Script(left_out)
    inside = [entry for entry in entries if from_us <= entry.wall_us <= to_us and _is_by_hand(entry)]
    for moment_us, together in _moments(sorted(inside, key=lambda entry: entry.wall_us)):
        found = script.steps(together)
        if found:
            steps += [{"type": "At", "ms": _rounded_ms(moment_us - from_us)}, *found]
    kinds = {step["type"] for step in steps}
    subjects = [subject for subject, of in _SUBJECTS.items() if kinds & of]
    # Without this step, the faults of a simulated run would end directly after the last of them had begun.
    steps.append({"type": "At", "ms": _rounded_ms(to_us - from_us)})
    scenario = {
        "driver": "world", "name": name, "title": "Faults recorded on a live cluster", "hypothesis": HYPOTHESIS,
        "subjects": subjects, "peers": peers, "brokers": brokers, "steps": steps,
    }  # fmt: skip
    return Recording(scenario, list(dict.fromkeys(left_out)))


def _rounded_ms(us: int) -> int:
    return us // 1000 // ROUNDED_MS * ROUNDED_MS


def _is_by_hand(entry: Entry) -> bool:
    event = entry.event
    if isinstance(event, FaultRemoved):
        return True
    return (
        isinstance(event, FaultInjected | ProcessChanged)
        and bool(event.requester)
        and not event.requester.startswith(_NOT_BY_HAND)
    )


def _moments(entries: list[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """Yield the entries of each moment, with its time."""
    moment_us = -TOGETHER_US

    def key(entry: Entry) -> int:
        nonlocal moment_us
        if entry.wall_us - moment_us >= TOGETHER_US:
            moment_us = entry.wall_us
        return moment_us

    for began_us, together in groupby(entries, key):
        yield began_us, list(together)


class _Script:
    """Translates journal entries to steps, and remembers the active link faults."""

    def __init__(self, left_out: list[str]) -> None:
        self._left_out = left_out
        self._active: dict[str, FaultInjected] = {}
        self._stopped: set[str] = set()
        """Brokers whose last step is a controlled shutdown, which may take longer in another run."""

    def steps(self, together: list[Entry]) -> list[Step]:
        """Return the steps of one moment. Faults end before other faults begin.

        A fault that begins and ends in the same moment is left out.
        """
        events = [entry.event for entry in together]
        ended: list[str] = []
        begun: dict[str, FaultInjected] = {}
        for event in events:
            if isinstance(event, FaultInjected):
                begun[event.fault_id] = event
            elif isinstance(event, FaultRemoved):
                brief = begun.pop(event.fault_id, None)
                if brief is None:
                    ended.append(event.fault_id)
                else:
                    self._left_out.append(f"{_link_of(brief)}: it lasted less than {TOGETHER_US // 1000} ms")
        steps = self._healed(ended)
        steps += [step for event in begun.values() for step in self._begun(event)]
        steps += [step for event in events if isinstance(event, ProcessChanged) for step in self._process(event)]
        return steps

    def _begun(self, event: FaultInjected) -> list[Step]:
        reason = _obstacle(event)
        if reason is not None:
            self._left_out.append(f"{_link_of(event)}: {reason}")
            return []
        self._active[event.fault_id] = event
        return _link_steps(event)

    def _healed(self, fault_ids: list[str]) -> list[Step]:
        ended = [event for each in fault_ids if (event := self._active.pop(each, None)) is not None]
        if not ended:
            return []
        return [{"type": "Heal"}, *(step for event in self._active.values() for step in _link_steps(event))]

    def _process(self, event: ProcessChanged) -> list[Step]:
        """Return the steps that change a process as the event describes."""
        node = event.target
        if event.process == "paused":
            return [{"type": "Pause", "node": node}]
        if event.process == "down":
            if event.action == "kill" or not node.startswith("broker-"):
                return [{"type": "Kill", "nodes": [node]}]
            self._stopped.add(node)
            return [{"type": "Stop", "node": node}]
        if event.action == "resume":
            return [{"type": "Resume", "node": node}]
        # `Restart` starts only nodes that are down.
        ended: list[Step] = [{"type": "Down", "node": node}] if node in self._stopped else []
        self._stopped.discard(node)
        return [*ended, {"type": "Restart", "nodes": [node]}]


def _link_of(event: FaultInjected) -> str:
    return f"{event.kind} {event.source} → {event.target}"


def _obstacle(event: FaultInjected) -> str | None:
    """Return why a fault cannot be a step, or None if it can."""
    if event.kind not in ("cut", "delay"):
        return "a script has no step for this kind of fault"
    ends = (event.source, event.target)
    if not event.source.startswith(_NODES) or not all(end in _GROUPS or end.startswith(_NODES) for end in ends):
        return "a script has no step for a fault of clients"
    return None


def _link_steps(event: FaultInjected) -> list[Step]:
    source, target = event.source, event.target
    others = list(_GROUPS.get(target, (target,)))
    if event.kind == "cut":
        return [{"type": "Cut", "node": source, "others": others, "both_ways": event.both_ways}]
    steps: list[Step] = [{"type": "Delay", "node": source, "others": others, "delay_ms": event.delay_ms}]
    if event.both_ways and target not in _GROUPS:
        steps.append({"type": "Delay", "node": target, "others": [source], "delay_ms": event.delay_ms})
    return steps


def _topics(state: ClusterState, left_out: list[str]) -> Iterator[Step]:
    """Yield a step for each topic of the cluster, except internal topics and topics above the limits."""
    made: dict[str, dict[int, list[int]]] = {}
    for partition in state.partitions.values():
        if partition.topic in state.topics and not partition.topic.startswith("__") and partition.replicas:
            made.setdefault(partition.topic, {})[partition.partition] = partition.replicas
    for number, (topic, replicas) in enumerate(sorted(made.items())):
        if (
            number >= TOPICS_MAX
            or len(replicas) > TOPIC_PARTITIONS_MAX
            or sorted(replicas) != list(range(len(replicas)))
        ):
            left_out.append(f"topic {topic}: a script creates {TOPICS_MAX} small topics at most")
            continue
        yield {
            "type": "Topic", "topic": topic, "configs": dict(state.configs.get(f"topics/{topic}", {})),
            "replicas": [[f"broker-{broker}" for broker in replicas[each]] for each in sorted(replicas)],
        }  # fmt: skip
