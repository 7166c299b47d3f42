"""Describes steps of the bare protocol as text: each step, its effects, and the resulting states of the servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from zabka.ensemble.ids import Zxid, counter_of, epoch_of
from zabka.ensemble.zab.messages import Packet, PeerState, Proposal
from zabka.journal import events as e
from zabka.journal.events import Event
from zabka.simulation.scenarios.core_steps import (
    Break,
    CoreSteps,
    Crash,
    Deliver,
    Elect,
    GiveUp,
    Lose,
    Run,
    Start,
    SyncDisk,
    Write,
    zxid_list,
)
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.steps.bare_ensemble import BareEnsemble
from zabka.simulation.steps.node import CoreNode, Outcome
from zabka.simulation.steps.transitions import DirectTransitions


class _Reported(DirectTransitions):
    """Applies inputs to nodes in place, and adds a line of text for each effect."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def apply_input(self, node: CoreNode, call: Callable[..., None], *args: object) -> tuple[CoreNode, Outcome]:
        node, outcome = super().apply_input(node, call, *args)
        said = ", ".join(packet_text(packet) for _, packet in outcome.traffic if packet is not None)
        if said:
            self.lines.append(f"{node.id} sends {said}")
        self.lines += [f"{node.id} {text}" for event in outcome.events for text in event_text(event)]
        return node, outcome


def transcript(peers: int, steps: Iterable[CoreSteps]) -> Iterator[str]:
    """Run the steps, and yield a line for each step, followed by lines for its effects."""
    told = _Reported()
    cores = BareEnsemble(peers, turns=told)
    for number, step in enumerate(steps, 1):
        yield f"{number:3}  {step_text(cores, step)}"
        told.lines.clear()
        try:
            step.play(cores)
        except StepFailed as failed:
            yield f"     failed: {failed}"
            return
        lines = told.lines if not isinstance(step, Start | Elect | Run) else []
        yield from (f"       {line}" for line in lines)
        if isinstance(step, Elect | Run):
            yield f"       {standing(cores)}"
        yield from (f"     VIOLATED: {problem}" for problem in cores.problems)
        if cores.problems:
            yield f"       {standing(cores)}"
            return


def step_text(cores: BareEnsemble, step: CoreSteps) -> str:
    """Return a text that describes one step."""
    if isinstance(step, Deliver | Lose):
        under_way = cores.carrying(step.source, step.target)
        packet = under_way[step.link].under_way_to(step.target)[0] if step.link < len(under_way) else None
        if isinstance(step, Lose):
            return f"what {step.source} sent to {step.target} before it closed is lost"
        if packet is None:
            return f"{step.target} hears that {step.source} has closed"
        return f"{step.target} gets {packet_text(packet)} from {step.source}"
    if isinstance(step, Crash):
        return f"{_all(step.peers)} killed, {step.written} of what waited for its disk done"
    texts: dict[type[CoreSteps], Callable[[Any], str]] = {
        Start: lambda each: f"{_all(each.peers or cores.voters)} started",
        Elect: lambda each: f"{_all(each.peers)} hold an election",
        Run: lambda each: "everything that is under way happens",
        SyncDisk: lambda each: f"the disk of {each.peer} gets to its next barrier",
        Write: lambda each: f"a client of {each.peer} writes",
        GiveUp: lambda each: f"the patience of {each.peer} ends",
        Break: lambda each: f"the connections between {each.one} and {each.other} break",
    }
    tell = texts.get(type(step))
    return tell(step) if tell is not None else str(step)


def packet_text(packet: Packet) -> str:
    """Return a text for a packet: its name and its main field."""
    name = type(packet).__name__
    if isinstance(packet, Proposal):
        return f"{name} {zxid_list([txn.zxid for txn in packet.txns])}"
    zxid = getattr(packet, "zxid", None)
    if zxid is not None:
        return f"{name} {_zxid(zxid)}"
    for field in ("epoch", "accepted_epoch", "current_epoch"):
        if hasattr(packet, field):
            return f"{name} ({field.replace('_', ' ')} {getattr(packet, field)})"
    return name


def event_text(event: Event) -> Iterator[str]:
    """Yield a text for a journal event, if the event is important enough."""
    if isinstance(event, e.TxnCommitted):
        yield f"commits {_zxid(event.zxid)}"
    elif isinstance(event, e.WriteAcknowledged):
        yield f"tells the client of {_zxid(event.zxid)}"
    elif isinstance(event, e.LeaderEstablished):
        yield f"is established in epoch {event.epoch} with a history up to {_zxid(event.zxid)}"
    elif isinstance(event, e.TxnLogTruncated):
        yield f"has cut its log back from {_zxid(event.from_zxid)} to {_zxid(event.to_zxid)}"
    elif isinstance(event, e.PeerStateChanged) and event.state == PeerState.LOOKING.name:
        yield "looks for a leader"


def standing(cores: BareEnsemble) -> str:
    """Return a text for every server: its role, and the epochs and the log on its disk."""
    said = []
    for peer, node in cores.nodes.items():
        status = node.status
        role = "down" if status is None else f"{status.state.name} {status.phase}"
        log = zxid_list(node.disk.history()) or "nothing"
        said.append(f"{peer} {role}, epochs {node.disk.accepted}/{node.disk.current}, holds {log}")
    return "; ".join(said)


def _zxid(zxid: int) -> str:
    return f"{epoch_of(Zxid(zxid))}.{counter_of(Zxid(zxid))}"


def _all(peers: tuple[int, ...]) -> str:
    return ", ".join(map(str, peers))
