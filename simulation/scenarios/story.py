"""The story of a scenario: the steps that its script took, and below each what came of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from ensemble.ids import zxid_text
from journal import events as e
from journal.events import Event
from simulation.scenarios.scenario import Verdict

SCRIPT = "script"
HEALING = "everything heals; what must hold then is looked at"
LINES_MAX = 400
_WORDS = {
    "Cast": "wait until every broker is registered and one is controller: that is first",
    "Reigns": "wait for a controller other than",
    "Run": "let everything under way happen",
    "Serving": "wait until the ensemble serves",
    "Settled": "wait until everything is in sync",
    "State": "wait for",
    "Undisturbed": "nobody else has begun to reign",
}
"""Of steps whose names would say too little."""
_CLAUSES = ("Cast", "Run", "Serving", "Settled", "Undisturbed")
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class Line(msgspec.Struct, frozen=True):
    """One line: when, in virtual time; who (`script` of a step, else a node); what."""

    at_ms: int
    who: str
    text: str

    def __str__(self) -> str:
        told = self.text if self.who == SCRIPT else f"  {self.who}: {self.text}"
        return f"{self.at_ms / 1000:9.3f} s  {told}"


def story(verdict: Verdict) -> list[Line]:
    """What happened, in order, at most `LINES_MAX` lines and one that says how many are missing."""
    lines = list(_lines(verdict))
    if len(lines) <= LINES_MAX:
        return lines
    return [*lines[:LINES_MAX], Line(lines[-1].at_ms, SCRIPT, f"… and {len(lines) - LINES_MAX} lines more")]


def _lines(verdict: Verdict) -> Iterator[Line]:
    begin_us = verdict.journal[0].mono_us if verdict.journal else 0
    steps = iter(verdict.taken)
    step = next(steps, None)
    for number, entry in enumerate(verdict.journal):
        while step is not None and step.entries <= number:
            yield Line(step.at_ms, SCRIPT, step.text)
            step = next(steps, None)
        tell = _TOLD.get(type(entry.event))
        text = tell(entry.event) if tell is not None else ""
        if text:
            yield Line((entry.mono_us - begin_us) // 1000, entry.node, text)
    while step is not None:
        yield Line(step.at_ms, SCRIPT, step.text)
        step = next(steps, None)


# ---- steps ------------------------------------------------------------------------------------------------------


def step_text(step: msgspec.Struct, names: Mapping[str, str] | None = None) -> str:
    """A step in words: its name, and whatever is not as usual.  `names` are the nodes that play the parts."""
    name = type(step).__name__
    is_clause = name in _CLAUSES
    words = _WORDS.get(name) or _CAPITAL.sub(" ", name).lower()
    told = [
        part
        for number, field in enumerate(msgspec.structs.fields(step))
        if (value := getattr(step, field.name)) != field.default
        for part in _field(field.name, value, named=number > 0 or is_clause, names=names or {})
    ]
    if not told:
        return words
    return f"{words}, {', '.join(told)}" if is_clause else f"{words} {', '.join(told)}"


def _field(name: str, value: Any, *, named: bool, names: Mapping[str, str]) -> Iterator[str]:
    label = name.replace("_", " ")
    if isinstance(value, bool):
        yield label if value else f"not {label}"
        return
    said = _value(value, names)
    if isinstance(value, int):
        yield f"{said} ms" if name == "ms" else f"{label} {said}"
    elif said:
        yield f"{label} {said}" if named else said


def _value(value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={inner}" for key, inner in value.items())
    if isinstance(value, tuple):
        return " ".join(
            f"({_value(inner, names)})" if isinstance(inner, tuple) else _value(inner, names) for inner in value
        )
    text = str(value)
    return f"{text} ({names[text]})" if text in names else text


# ---- events -----------------------------------------------------------------------------------------------------


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "nobody"


def _eligible(event: e.LeaderElected | e.IsrChanged) -> str:
    return f", eligible {_ids(event.eligible)}" if event.eligible else ""


def _who_leads(event: e.LeaderElected) -> str:
    leads = f"broker {event.leader} leads" if event.leader >= 0 else "nobody leads"
    unclean = ", UNCLEAN" if event.unclean else ""
    return f"{event.topic}-{event.partition}: {leads}, leader epoch {event.leader_epoch}, ISR {_ids(event.isr)}" + (
        _eligible(event) + unclean
    )


def _refused_request(event: e.RequestFenced) -> str:
    sender = f"broker {event.sender_id}" if event.sender_id >= 0 else "somebody"
    return f"refuses {event.request} from {sender}: {event.reason}"


_TOLD: dict[type[Event], Callable[[Any], str]] = {
    e.NodeStopped: lambda event: f"ends: {event.reason}",
    e.InvariantViolated: lambda event: f"VIOLATED: {event.invariant}: {event.detail}",
    e.PeerProtocolBroken: lambda event: f"drops {event.remote}: {event.reason}",
    e.PeerStateChanged: lambda event: "looks for a leader" if event.state == "LOOKING" and event.round else "",
    e.LeaderEstablished: lambda event: f"leads the ensemble in epoch {event.epoch}, with {_ids(event.quorum)}",
    e.TxnLogTruncated: lambda event: (
        f"cuts its log from {zxid_text(event.from_zxid)} back to {zxid_text(event.to_zxid)}"
    ),
    e.LogDamageFound: lambda event: f"{event.file}: {event.reason}; {event.action}",
    e.SessionExpired: lambda event: f"session {event.session_id:#x} has expired",
    e.BrokerRegistered: lambda event: f"is registered, broker epoch {zxid_text(event.broker_epoch)}",
    e.ControllerElected: lambda event: f"is controller, epoch {event.controller_epoch}",
    e.ControllerResigned: lambda event: f"is controller no more: {event.reason.replace('_', ' ')}",
    e.ControllerEventFailed: lambda event: f"as controller met {event.problem}, at {event.event}",
    e.WriteFenced: lambda event: f"{event.operation} {event.path} is refused: {event.reason.replace('_', ' ')}",
    e.RequestFenced: _refused_request,
    e.LeaderElected: _who_leads,
    e.IsrChanged: lambda event: (
        f"{event.topic}-{event.partition}: ISR {_ids(event.isr)}{_eligible(event)} ({event.cause.replace('_', ' ')})"
    ),
    e.LogTruncated: lambda event: (
        f"{event.topic}-{event.partition}: log cut from {event.from_offset} back to {event.to_offset}"
    ),
    e.RecordsLost: lambda event: (
        f"{event.topic}-{event.partition}: records {event.first_offset} to {event.last_offset} are gone, "
        f"{event.below_high_watermark} of them committed"
    ),
}
