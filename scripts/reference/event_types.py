"""Reference page of the journal's event types: their meaning and fields."""

from __future__ import annotations

import ast
import inspect
import textwrap

import msgspec

from scripts.reference.markdown import code, document, sentence, table
from zabka.journal.event import snake
from zabka.journal.events import EVENT_TYPES, Entry, Event, Level

_INTRODUCTION = (
    "A journal is a file of JSON lines. A line is an **envelope** (who wrote it, which number, when) and the "
    "**body** of one event. An event states what is true from now on, so a reader only has to assign it. "
    "Events of level *full* are written by simulated runs and by nodes with `zabka.journal.level=full`; the "
    "others always. Offsets, epochs, versions and zxids are whole numbers. Where a field has a default, a line "
    "may leave it out."
)


def page() -> str:
    """Return the page of event types."""
    listed = table(
        ["type", "level", "what it says"],
        ([f"[`{snake(t.__name__)}`](#{snake(t.__name__)})", _level(t), sentence(t.__doc__)] for t in EVENT_TYPES),
    )
    return document(
        "Events of the journal",
        _INTRODUCTION,
        f"## The envelope\n\n{sentence(Entry.__doc__)}\n\n{_fields(Entry, without='event')}",
        f"## Every type\n\n{listed}",
        *(_section(kind) for kind in EVENT_TYPES),
    )


def _level(kind: type[Event]) -> str:
    return "full" if kind.level is Level.FULL else "normal"


def _section(kind: type[Event]) -> str:
    head = f"## {snake(kind.__name__)}\n\n{sentence(kind.__doc__)}\n\nClass `{kind.__name__}`, level {_level(kind)}."
    return f"{head}\n\n{_fields(kind)}"


def _fields(kind: type[msgspec.Struct], without: str = "") -> str:
    meanings = _field_meanings(kind)
    rows = []
    for field in msgspec.structs.fields(kind):
        if field.name == without:
            continue
        if field.default is not msgspec.NODEFAULT:
            default = repr(field.default)
        else:
            default = "" if field.default_factory is msgspec.NODEFAULT else repr(field.default_factory())
        rows.append([code(field.name), code(_type_name(field.type)), code(default), meanings.get(field.name, "")])
    if any(row[3] for row in rows):
        return table(["field", "type", "default", ""], rows)
    return table(["field", "type", "default"], (row[:3] for row in rows))


def _type_name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


def _field_meanings(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings of the fields of the class."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    meanings = {}
    for before, node in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
        ):
            meanings[before.target.id] = sentence(str(node.value.value))
    return meanings
