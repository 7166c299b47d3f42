"""Records the faults of a span of a run as a scenario file."""

from __future__ import annotations

import asyncio

from zabka.api.http.problems import Problem
from zabka.api.runs.history import History
from zabka.api.scenarios.file_models import STEPS_MAX, RecordedScript, ScenarioFile
from zabka.api.services import Services
from zabka.journal.events import Entry, FaultInjected, FaultRemoved, ProcessChanged
from zabka.journal.reader import decode_line
from zabka.simulation.scenarios.recording import recorded

BATCH_EVENTS = 1_000
OUT_OF_ORDER_US = 60_000_000
"""By how much the clocks of hosts can differ: events of the span are not searched beyond."""


async def recorded_script(
    services: Services, run: str, from_us: int, to_us: int, name: str, *, with_topics: bool
) -> RecordedScript:
    """Return the script. Raises Problem: 410 if the span is no longer stored as a whole, 422 if it is empty or has too
    many faults.
    """
    if to_us <= from_us:
        raise Problem(422, "the span is empty: from must be less than to")
    rewind = services.runs.rewind(run)
    before, last, entries = await _entries(rewind.history, from_us, to_us)
    state, end = await rewind.state(before), await rewind.state(last)
    here = services.settings if run == "live" else None
    # The state before the first event of a history has no nodes.
    peers = max([*state.peers, *end.peers, *(here.peers if here else ())], default=1)
    brokers = max([*state.brokers, *end.brokers, *(here.brokers if here else ())], default=0)
    found = recorded(
        entries, state, name=name, from_us=from_us, to_us=to_us, peers=peers, brokers=brokers, with_topics=with_topics
    )
    if len(found.scenario["steps"]) > STEPS_MAX:
        raise Problem(422, f"there are more than {STEPS_MAX} steps in that span; choose a shorter one")
    return RecordedScript(scenario=ScenarioFile.model_validate(found.scenario), left_out=found.left_out)


async def _entries(history: History, from_us: int, to_us: int) -> tuple[int, int, list[Entry]]:
    """Return the numbers of the last event before the span and of the last event in it, and the span's events about
    faults and processes. Raises Problem 410 if the oldest events of the span are no longer stored.
    """
    first = seq = history.first_seq
    before = last = first - 1
    inside: list[Entry] = []
    while rows := history.read(seq, BATCH_EVENTS):
        entries = [decode_line(row.json) for row in rows]
        if seq == first > 1 and entries[0].wall_us > from_us:
            raise Problem(410, f"the oldest stored event is {first}, and the span begins before it", oldest=first)
        if entries[0].wall_us > to_us + OUT_OF_ORDER_US:
            break
        for entry in entries:
            if entry.wall_us < from_us:
                before = entry.seq
            elif entry.wall_us <= to_us:
                last = entry.seq
                if isinstance(entry.event, FaultInjected | FaultRemoved | ProcessChanged):
                    inside.append(entry)
        seq = rows[-1].seq + 1
        await asyncio.sleep(0)
    return before, max(before, last), inside
