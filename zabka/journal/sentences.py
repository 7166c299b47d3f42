"""Events as sentences: a table of templates, and how they are rendered.

The table is `zabka/journal/sentences.json`. Scenario stories use it through this module; the dashboard uses the same
table through `api/web/sentences.js`, and `tests/golden/sentences.jsonl` has the expected sentences of both. Each event
type has these keys:

- `sentence`: a template. `{field}` is a field of the event and `{field:form}` the same field in one of the forms below.
  `[condition?text|otherwise]` is one of the two strings; `|otherwise` is optional. Brackets do not nest.
- `weight`: pairs of a weight (loss, election or trouble) and a condition. The first true condition decides how
  important the event is in the dashboard; without one, the event is plain.
- `spoken`: pairs of a template and a condition. A screen reader announces the first pair with a true condition; without
  one, it announces nothing.
- `progress`: true if the event only reports progress. Such events occur dozens of times a second under load, so the
  dashboard stores and shows them separately.
- `story`: the condition for including the event in a scenario's story; without it, the event is never included.

A condition is empty (always true), or comparisons joined by `&`: `field` (neither zero, empty, false nor null),
`!field`, `field=text`, `field!=text`, `field<number`, `field>number`. Besides the event's own fields, a condition can
use `own`, which is true if the broker that the event is about wrote the event itself.

The forms are `hex` (64 bits, as ZooKeeper prints zxids and sessions), `words` (an identifier without its underscores),
`list`, `pairs` (of a mapping), `offsets` (rows of topic, partition, high watermark and log end), `plural NOUN` (a
count), `size NOUN` (the size of a list or mapping), `standings` (rows of `ReplicaStanding`) and `verdicts` (rows of a
replica and its status in an election).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from zabka.journal.event import Event, snake

_CHOICE = re.compile(r"\[([^\[\]?]+)\?([^\[\]|]*)(?:\|([^\[\]]*))?\]")
_FIELD = re.compile(r"\{(\w+)(?::(\w+)(?: (\w+))?)?\}")
_COMPARISON = re.compile(r"(!?)(\w+)(?:(!=|=|<|>)(.*))?")
_UINT64_MASK = (1 << 64) - 1


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Templates and conditions for one event type."""

    sentence: str
    weight: list[tuple[str, str]] = []
    spoken: list[tuple[str, str]] = []
    progress: bool = False
    story: str | None = None


class Sentences:
    """Templates of sentences about events, keyed by event type. Raises KeyError for an unknown type."""

    def __init__(self, wordings: Mapping[str, Wording]) -> None:
        self._wordings = wordings

    def sentence(self, node: str, event: Event) -> str:
        """Return the sentence for an event, without the node's name."""
        return render(self._wordings[snake(type(event).__name__)].sentence, _fields(node, event))

    def belongs_in_story(self, node: str, event: Event) -> bool:
        """Return whether a scenario's story includes the event."""
        condition = self._wordings[snake(type(event).__name__)].story
        return condition is not None and holds(condition, _fields(node, event))


def _fields(node: str, event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    fields["own"] = node == f"broker-{fields.get('broker_id')}"
    return fields


def render(template: str, fields: Mapping[str, Any]) -> str:
    """Fill a template with these fields.

    Raises KeyError if the template names a field or a display form that does not exist.
    """

    def choose(found: re.Match[str]) -> str:
        condition, text, otherwise = found.groups(default="")
        return text if holds(condition, fields) else otherwise

    def fill(found: re.Match[str]) -> str:
        name, form, noun = found.groups(default="")
        return _FORMS[form](fields[name], noun)

    return _FIELD.sub(fill, _CHOICE.sub(choose, template))


def holds(condition: str, fields: Mapping[str, Any]) -> bool:
    """Return whether a condition is true for these fields. Raises KeyError if a field does not exist."""
    return all(_compares(comparison, fields) for comparison in condition.split("&") if comparison)


def _compares(comparison: str, fields: Mapping[str, Any]) -> bool:
    found = _COMPARISON.fullmatch(comparison)
    if found is None:
        raise ValueError(f"{comparison!r} is not a comparison")
    negated, name, sign, operand = found.groups(default="")
    value = fields[name]
    match sign:
        case "=":
            return str(value) == operand
        case "!=":
            return str(value) != operand
        case "<":
            return bool(value < int(operand))
        case ">":
            return bool(value > int(operand))
        case _:
            return bool(value) != bool(negated)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _duration(ms: int) -> str:
    if ms < 1000:
        return f"{ms} ms"
    seconds, hundredths = divmod((ms + 5) // 10, 100)
    return f"{seconds:,}.{hundredths:02}".rstrip("0").rstrip(".") + " s"


def _standing(row: Mapping[str, int]) -> str:
    ago, limit = row["caught_up_ms_ago"], _duration(row["lag_time_max_ms"])
    caught_up = "not caught up in this leader epoch" if ago < 0 else f"last caught up {_duration(ago)} ago"
    ends = f"log end offset {row['log_end_offset']}, leader's {row['leader_end_offset']}"
    return f"broker {row['replica']}: {ends}, {caught_up} (limit {limit})"


def _offsets(row: tuple[str, int, int, int]) -> str:
    topic, partition, high_watermark, end = row
    return f"{topic}-{partition} high watermark {high_watermark}, log end offset {end}"


_FORMS: dict[str, Callable[[Any, str], str]] = {
    "": lambda value, _: str(value),
    "hex": lambda value, _: f"{value & _UINT64_MASK:#x}",
    "words": lambda value, _: value.replace("_", " "),
    "list": lambda value, _: ", ".join(map(str, value)),
    "pairs": lambda value, _: ", ".join(f"{key}={inner}" for key, inner in value.items()),
    "offsets": lambda rows, _: "; ".join(map(_offsets, rows)),
    "standings": lambda rows, _: "; ".join(map(_standing, rows)),
    "verdicts": lambda rows, _: ", ".join(f"{replica} {word.replace('_', ' ')}" for replica, word in rows),
    "plural": _counted,
    "size": lambda value, noun: _counted(len(value), noun),
}
