"""The exported runs as JSON, including results that only the server can compute.

In the exported file, the page itself computes states and the sentences for events. The server computes causes, rules,
the first difference of two runs, and the answers of lessons in advance. `api/web/source/embedded.js` reads the JSON and
defines its format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from zabka.api.exports.explained import Explained, RuleList
from zabka.api.exports.recorded import Recorded, copied
from zabka.api.runs.divergences import first_difference
from zabka.api.runs.incident_list import incident_list
from zabka.api.runs.lanes import lanes
from zabka.api.runs.rewind import Lasted
from zabka.journal.sentence_file import SENTENCES
from zabka.journal.spans import Spans

Json = dict[str, Any]
AXIS_BINS = 900
AXIS_LANES = ("controller", "isr")
"""Kinds of spans that the page draws for both runs on a common time axis."""


def contents(runs: Sequence[Recorded], opening: Mapping[str, Any], lessons: Iterable[Json] = ()) -> bytes:
    """Return the exported runs as JSON.

    `opening` is the view that the page shows first, as the query parameters of the page's URL. Each lesson has the keys
    `lesson` and `answer`, in the format of the API.
    """
    rules = RuleList()
    explained = [Explained(run) for run in runs]
    found = {
        "opening": dict(opening),
        "sentences": msgspec.Raw(SENTENCES.read_bytes()),
        "runs": [_run(each, rules, with_axis=len(runs) > 1) for each in explained],
        "rules": rules.found,
        "divergences": [_difference(one, other) for one in explained for other in explained if one is not other],
        "lessons": list(lessons),
    }
    return msgspec.json.encode(found)


def _run(explained: Explained, rules: RuleList, *, with_axis: bool) -> Json:
    run = explained.run
    about = run.about.model_dump(mode="json")
    return {
        "about": {**about, "messages": bool(run.messages)},
        "before": run.before,
        "events": [entry.to_dict() for entry in explained.entries],
        "messages": run.messages,
        "causes": explained.causes(rules),
        "incidents": _incidents(explained),
        "spans": _axis(explained) if with_axis else None,
    }


def _incidents(explained: Explained) -> list[Json]:
    """Return the run's incidents whose root cause is among the exported events."""
    about = explained.run.about
    return [
        each for each in incident_list(explained.run.history) if about.first_seq <= each["cause_seq"] <= about.last_seq
    ]


def _axis(explained: Explained) -> Json:
    spans, about = Spans(copied(explained.run.before)), explained.run.about
    for entry in explained.entries:
        spans.apply(entry)
    lasted = Lasted([*spans.take_closed(), *spans.lasting()], about.first_us, about.last_us)
    return {"first_us": lasted.first_us, "last_us": lasted.last_us, "lanes": lanes(lasted, AXIS_LANES, AXIS_BINS)}


def _difference(one: Explained, other: Explained) -> tuple[str, str, Json]:
    found = first_difference(one.entries, other.entries)
    for side, each in (("a", one), ("b", other)):
        at = found["at"][side]
        found["why"][side] = None if at is None else each.why(at["seq"])
    return one.run.about.id, other.run.about.id, found
