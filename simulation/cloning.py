"""Copies and fingerprints of a pure object, for a search that goes back to where it has been.

A peer is plain data: numbers, immutable messages, containers, objects of its own, and the functions that wait for a
barrier.  A clone shares what cannot change and copies the rest, functions with what they have closed over included.  A
fingerprint says the same of two objects that will behave the same, whatever their addresses; clock readings (names
that end in `_ms`, instants) are left out, for the search keeps time out of its states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from hashlib import blake2b
from types import CellType, FunctionType, MethodType
from typing import Any

import msgspec

from ensemble.ports import Instant
from ensemble.txn import Txn

_SCALARS = (int, str, bytes, float, type(None), Enum, type)
_ATOMS = (*_SCALARS, Instant, msgspec.Struct, Txn)
_Memo = dict[int, Any]


def clone(thing: Any) -> Any:
    """An independent copy; what it shares with the original cannot change."""
    return _clone(thing, {})


def fields_of(kind: type) -> tuple[str, ...]:
    """The slots of a class and its bases."""
    found = _SLOTS.get(kind)
    if found is None:
        names = [name for base in kind.__mro__ for name in _slots_of(base)]
        found = _SLOTS[kind] = tuple(name for name in names if not name.startswith("__"))
    return found


_SLOTS: dict[type, tuple[str, ...]] = {}


def _slots_of(base: type) -> tuple[str, ...]:
    slots = base.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _clone(thing: Any, memo: _Memo) -> Any:
    kind = type(thing)
    how = _CLONERS.get(kind)
    if how is None:
        how = _CLONERS[kind] = _atom if issubclass(kind, _ATOMS) else _tuple if issubclass(kind, tuple) else _object
    if how is _atom:
        return thing
    known = memo.get(id(thing))
    return how(thing, memo) if known is None else known


def _atom(thing: Any, memo: _Memo) -> Any:
    return thing


def _tuple(thing: Any, memo: _Memo) -> Any:
    items = [_clone(item, memo) for item in thing]
    if all(new is old for new, old in zip(items, thing, strict=True)):
        return thing
    return tuple(items) if type(thing) is tuple else type(thing)(*items)


def _list(thing: Any, memo: _Memo) -> Any:
    copy: list[Any] = []
    memo[id(thing)] = copy
    copy.extend(_clone(item, memo) for item in thing)
    return copy


def _deque(thing: Any, memo: _Memo) -> Any:
    copy: deque[Any] = deque((_clone(item, memo) for item in thing), thing.maxlen)
    memo[id(thing)] = copy
    return copy


def _dict(thing: Any, memo: _Memo) -> Any:
    copy: dict[Any, Any] = {}
    memo[id(thing)] = copy
    for key, value in thing.items():
        copy[key] = _clone(value, memo)
    return copy


def _set(thing: Any, memo: _Memo) -> Any:
    return set(thing)


def _function(thing: Any, memo: _Memo) -> Any:
    if not thing.__closure__:
        return thing
    cells = tuple(CellType(_clone(cell.cell_contents, memo)) for cell in thing.__closure__)
    return FunctionType(thing.__code__, thing.__globals__, thing.__name__, thing.__defaults__, cells)


def _method(thing: Any, memo: _Memo) -> Any:
    return MethodType(thing.__func__, _clone(thing.__self__, memo))


def _object(thing: Any, memo: _Memo) -> Any:
    kind = type(thing)
    copy = object.__new__(kind)
    memo[id(thing)] = copy
    for name in fields_of(kind):
        if hasattr(thing, name):
            object.__setattr__(copy, name, _clone(getattr(thing, name), memo))
    own = getattr(thing, "__dict__", None)
    if own is not None:
        copied = copy.__dict__
        for name, value in own.items():
            copied[name] = _clone(value, memo)
    return copy


_CLONERS: dict[type, Callable[[Any, _Memo], Any]] = {
    list: _list,
    dict: _dict,
    deque: _deque,
    set: _set,
    FunctionType: _function,
    MethodType: _method,
}


def fingerprint(thing: Any) -> bytes:
    """Sixteen bytes that are equal for objects that behave the same."""
    parts: list[str] = []
    _describe(thing, parts, {})
    return blake2b("\n".join(parts).encode(), digest_size=16).digest()


_Seen = dict[int, int]


def _describe(thing: Any, parts: list[str], seen: _Seen) -> None:
    kind = type(thing)
    how = _DESCRIBERS.get(kind)
    if how is None:
        how = _DESCRIBERS[kind] = next(how for base, how in _DESCRIBED if issubclass(kind, base))
    how(thing, parts, seen)


def _describe_scalar(thing: Any, parts: list[str], seen: _Seen) -> None:
    parts.append(repr(thing))


def _describe_nothing(thing: Any, parts: list[str], seen: _Seen) -> None:
    return


def _describe_txn(thing: Any, parts: list[str], seen: _Seen) -> None:
    parts.append(f"txn {thing.zxid:x} {thing.session_id} {thing.cxid}")


def _describe_struct(thing: Any, parts: list[str], seen: _Seen) -> None:
    parts.append(type(thing).__name__)
    for name in thing.__struct_fields__:
        if not name.endswith("_ms"):
            _describe(getattr(thing, name), parts, seen)


def _describe_items(thing: Any, parts: list[str], seen: _Seen) -> None:
    parts.append(f"({len(thing)}")
    for item in thing:
        _describe(item, parts, seen)


def _describe_dict(thing: Any, parts: list[str], seen: _Seen) -> None:
    parts.append(f"{{{len(thing)}")
    for key, value in thing.items():
        parts.append(repr(key))
        _describe(value, parts, seen)


def _describe_set(thing: Any, parts: list[str], seen: _Seen) -> None:
    parts.append(repr(sorted(thing)))


def _describe_function(thing: Any, parts: list[str], seen: _Seen) -> None:
    parts.append(thing.__qualname__)
    for cell in thing.__closure__ or ():
        _describe(cell.cell_contents, parts, seen)


def _describe_method(thing: Any, parts: list[str], seen: _Seen) -> None:
    parts.append(thing.__func__.__qualname__)
    _describe(thing.__self__, parts, seen)


def _describe_object(thing: Any, parts: list[str], seen: _Seen) -> None:
    # Objects alone can refer back to one another; they are named by the order in which they were met.
    number = seen.get(id(thing))
    if number is not None:
        parts.append(f"^{number}")
        return
    seen[id(thing)] = len(seen)
    parts.append(type(thing).__name__)
    for name in fields_of(type(thing)):
        if not name.endswith("_ms") and hasattr(thing, name):
            _describe(getattr(thing, name), parts, seen)
    for name, value in getattr(thing, "__dict__", {}).items():
        if not name.endswith("_ms"):
            parts.append(name)
            _describe(value, parts, seen)


_Describer = Callable[[Any, list[str], _Seen], None]
_DESCRIBED: tuple[tuple[Any, _Describer], ...] = (
    (Instant, _describe_nothing),
    (_SCALARS, _describe_scalar),
    (Txn, _describe_txn),
    (msgspec.Struct, _describe_struct),
    ((tuple, list, deque), _describe_items),
    (dict, _describe_dict),
    (set, _describe_set),
    (FunctionType, _describe_function),
    (MethodType, _describe_method),
    (object, _describe_object),
)
_DESCRIBERS: dict[type, _Describer] = {}
