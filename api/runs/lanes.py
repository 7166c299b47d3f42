"""Spans as the page draws them: lane by lane, and what is narrower than a pixel drawn as one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from zabka.api.runs.rewind import Lasted
from zabka.journal.spans import Span

KINDS = ("controller", "belief", "isr", "peer", "process", "faults")
"""The kinds of lanes, in the order in which they are told."""
_DIGITS = re.compile(r"([0-9]+)")

_encode = msgspec.json.Encoder().encode


def encoded(lasted: Lasted, wanted: Iterable[str], bins: int | None) -> bytes:
    """The answer, as JSON.  Span by span: one call for all of them would let nobody else have a turn meanwhile."""
    told = lanes(lasted, wanted, bins)
    for lane in told:
        lane["spans"] = msgspec.Raw(b"[" + b",".join(map(_encode, lane["spans"])) + b"]")
    return _encode({"first_us": lasted.first_us, "last_us": lasted.last_us, "lanes": told})


def lanes(lasted: Lasted, wanted: Iterable[str], bins: int | None) -> list[dict[str, Any]]:
    """Every lane of a wanted kind or name (all, if nothing is wanted), its spans in order of their beginnings.

    With `bins`, spans of one row that lie within the same bin (a part of the whole time) become one.
    """
    names = tuple(wanted)
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
    # Texts and numbers take turns here, so that places of one kind can be compared; names of topics are as long as
    # whoever brought the journal along likes, and numbers of thousands of digits are refused by `int`.
    parts = [_number(part) if place % 2 else part for place, part in enumerate(_DIGITS.split(lane))]
    return (KINDS.index(kind), *parts)


def _number(digits: str) -> tuple[int, str]:
    """What puts numbers in their order."""
    significant = digits.lstrip("0")
    return len(significant), significant


def _narrowed(row: list[Span], first_us: int, width_us: int | None) -> Iterator[dict[str, Any]]:
    """A row's spans, as they are or with those of one bin merged."""
    together: list[Span] = []
    for span in row:
        if together and (width_us is None or _bin(span, first_us, width_us) != _bin(together[0], first_us, width_us)):
            yield _told(together)
            together = []
        together.append(span)
        if width_us is None or _bin(span, first_us, width_us) is None:
            yield _told(together)
            together = []
    if together:
        yield _told(together)


def _bin(span: Span, first_us: int, width_us: int) -> int | None:
    """The bin in which a span lies; None where it reaches over several, or lasts."""
    if span.to_us is None:
        return None
    begin, end = (span.from_us - first_us) // width_us, (span.to_us - first_us) // width_us
    return begin if begin == end else None


def _told(together: list[Span]) -> dict[str, Any]:
    longest = max(together, key=lambda span: 0 if span.to_us is None else span.to_us - span.from_us)
    told: dict[str, Any] = {
        "from_us": together[0].from_us,
        "to_us": together[-1].to_us,
        "state": longest.state,
        "value": longest.value,
        "seq": together[0].seq,
    }
    if len(together) > 1:
        told["merged"] = dict(Counter(span.state for span in together))
    return told
