"""Spans in the form that the page draws: grouped by lane, with spans narrower than a pixel merged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from zabka.api.runs.rewind import Lasted
from zabka.journal.spans import Span

KINDS = ("controller", "belief", "isr", "peer", "process", "group", "faults")
"""The kinds of lanes, in the order of the response."""
_DIGITS = re.compile(r"([0-9]+)")

_encode = msgspec.json.Encoder().encode


def encoded(lasted: Lasted, requested: Iterable[str], bins: int | None) -> bytes:
    """Encode the response as JSON, one span at a time: encoding all at once would block the event loop."""
    listed = lanes(lasted, requested, bins)
    for lane in listed:
        lane["spans"] = msgspec.Raw(b"[" + b",".join(map(_encode, lane["spans"])) + b"]")
    return _encode({"first_us": lasted.first_us, "last_us": lasted.last_us, "lanes": listed})


def lanes(lasted: Lasted, requested: Iterable[str], bins: int | None) -> list[dict[str, Any]]:
    """Return the lanes of the requested kinds or names (all by default), with their spans in order of start time.

    With `bins`, divide the whole time into that many bins, and merge the spans of one row that are within the same bin.
    """
    names = tuple(requested)
    found: dict[str, dict[str, list[Span]]] = {}
    for span in sorted(lasted.spans, key=lambda span: span.seq):
        if not names or span.lane in names or _kind(span.lane) in names:
            found.setdefault(span.lane, {}).setdefault(span.of, []).append(span)
    width_us = None if bins is None else max(1, -(-(lasted.last_us - lasted.first_us) // bins))
    answer = []
    for lane in sorted(found, key=_place):
        rows = [_narrowed(row, lasted.first_us, width_us) for row in found[lane].values()]
        spans = sorted((span for row in rows for span in row), key=lambda span: (span["from_us"], span["seq"]))
        answer.append({"lane": lane, "kind": _kind(lane), "spans": spans})
    return answer


def _kind(lane: str) -> str:
    return lane.partition(":")[0]


def _place(lane: str) -> tuple[Any, ...]:
    kind = _kind(lane)
    # Strings and numbers alternate in the sort key, so that a string is compared only with strings and a number only
    # with numbers. Topic names in an uploaded journal can have any length, and `int` rejects numbers with thousands of
    # digits.
    parts = [_number(part) if place % 2 else part for place, part in enumerate(_DIGITS.split(lane))]
    return (KINDS.index(kind), *parts)


def _number(digits: str) -> tuple[int, str]:
    """Return a sort key that orders decimal numbers of any length."""
    significant = digits.lstrip("0")
    return len(significant), significant


def _narrowed(row: list[Span], first_us: int, width_us: int | None) -> Iterator[dict[str, Any]]:
    """Yield a row's spans, with spans within the same bin merged."""
    together: list[Span] = []
    for span in row:
        if together and (width_us is None or _bin(span, first_us, width_us) != _bin(together[0], first_us, width_us)):
            yield _merged(together)
            together = []
        together.append(span)
        if width_us is None or _bin(span, first_us, width_us) is None:
            yield _merged(together)
            together = []
    if together:
        yield _merged(together)


def _bin(span: Span, first_us: int, width_us: int) -> int | None:
    """Return the bin that contains the whole span; None if the span crosses bins or has not ended."""
    if span.to_us is None:
        return None
    begin, end = (span.from_us - first_us) // width_us, (span.to_us - first_us) // width_us
    return begin if begin == end else None


def _merged(together: list[Span]) -> dict[str, Any]:
    longest = max(together, key=lambda span: 0 if span.to_us is None else span.to_us - span.from_us)
    listed: dict[str, Any] = {
        "from_us": together[0].from_us,
        "to_us": together[-1].to_us,
        "state": longest.state,
        "value": longest.value,
        "seq": together[0].seq,
    }
    if len(together) > 1:
        listed["merged"] = dict(Counter(span.state for span in together))
    return listed
