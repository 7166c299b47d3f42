"""Copies and fingerprints of a peer's objects, for a search that returns to earlier states.

A peer is plain data: numbers, immutable messages, containers, objects of zabka's classes, and functions that wait for a
barrier. A clone shares immutable parts and copies the rest, including functions and their closures. Two objects that
behave the same have equal fingerprints, whatever their memory addresses; `Rules` lists the parts that do not affect
behaviour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from hashlib import blake2b
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple

import msgspec

from zabka.ensemble.ports import Instant
from zabka.ensemble.txn import Txn

_SCALARS = (int, str, bytes, float, type(None), Enum, type)
_ATOMS = (*_SCALARS, Instant, msgspec.Struct, Txn)
_Memo = dict[int, Any]


def clone(thing: Any) -> Any:
    """Return an independent copy that shares only immutable parts with the original."""
    return _clone(thing, {})


def fields_of(kind: type) -> tuple[str, ...]:
    """Return the slots of a class and its bases."""
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


class Rules(NamedTuple):
    """What a fingerprint of an object ignores.

    - `ages`: of these fields, which contain an instant, only the age at `now_ms` counts, up to the given maximum.
    - `any_order`: the key order of dicts in these fields (None: of all dicts) is ignored.
    - `left_out`: for each type, the fields of an object that are ignored.
    """

    now_ms: int = 0
    ages: Mapping[str, int] = {}
    any_order: frozenset[str] | None = frozenset()
    left_out: Mapping[type, Callable[[Any], frozenset[str]]] = {}


def fingerprint(thing: Any, rules: Rules = Rules()) -> bytes:  # noqa: B008 - it is a value
    """Return a fingerprint of 16 bytes, which is equal for objects that behave in the same way."""
    description = _Description(rules)
    description.add(thing)
    return blake2b("\n".join(description.parts).encode(), digest_size=16).digest()


class _Description:
    """Text from which the fingerprint of an object is computed, built part by part."""

    __slots__ = ("parts", "rules", "seen")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.parts: list[str] = []
        self.seen: dict[int, int] = {}

    def add(self, thing: Any) -> None:
        kind = type(thing)
        how = _DESCRIBERS.get(kind)
        if how is None:
            how = _DESCRIBERS[kind] = next(how for base, how in _DESCRIBED if issubclass(kind, base))
        how(self, thing)

    def scalar(self, thing: Any) -> None:
        self.parts.append(repr(thing))

    def nothing(self, thing: Any) -> None:
        return

    def txn(self, thing: Any) -> None:
        self.parts.append(f"txn {thing.zxid:x} {thing.session_id} {thing.cxid}")

    def struct(self, thing: Any) -> None:
        self.parts.append(type(thing).__name__)
        for name in thing.__struct_fields__:
            self.add(getattr(thing, name))

    def items(self, thing: Any) -> None:
        self.parts.append(f"({len(thing)}")
        for item in thing:
            self.add(item)

    def dict(self, thing: Any) -> None:
        self.ordered(thing.items() if self.rules.any_order is not None else sorted(thing.items()))

    def ordered(self, items: Collection[tuple[Any, Any]]) -> None:
        self.parts.append(f"{{{len(items)}")
        for key, value in items:
            self.parts.append(repr(key))
            self.add(value)

    def set(self, thing: Any) -> None:
        self.parts.append(repr(sorted(thing)))

    def function(self, thing: Any) -> None:
        self.parts.append(thing.__qualname__)
        for cell in thing.__closure__ or ():
            self.add(cell.cell_contents)

    def method(self, thing: Any) -> None:
        self.parts.append(thing.__func__.__qualname__)
        self.add(thing.__self__)

    def object(self, thing: Any) -> None:
        # Number each object when it is first visited, because objects can form reference cycles.
        number = self.seen.get(id(thing))
        if number is not None:
            self.parts.append(f"^{number}")
            return
        self.seen[id(thing)] = len(self.seen)
        kind = type(thing)
        self.parts.append(kind.__name__)
        left_out = self.rules.left_out.get(kind)
        hidden = left_out(thing) if left_out is not None else ()
        for name in fields_of(kind):
            if name not in hidden and hasattr(thing, name):
                self.field(name, getattr(thing, name))
        for name, value in getattr(thing, "__dict__", {}).items():
            if name not in hidden:
                self.parts.append(name)
                self.field(name, value)

    def field(self, name: str, value: Any) -> None:
        rules = self.rules
        if name in rules.ages:
            self.parts.append(str(min(rules.now_ms - value, rules.ages[name])))
        elif rules.any_order and name in rules.any_order and type(value) is dict:
            self.ordered(sorted(value.items(), key=_key))
        else:
            self.add(value)


def _key(item: tuple[Any, Any]) -> Any:
    return item[0]


_Describer = Callable[[_Description, Any], None]
_DESCRIBED: tuple[tuple[Any, _Describer], ...] = (
    (Instant, _Description.nothing),
    (_SCALARS, _Description.scalar),
    (Txn, _Description.txn),
    (msgspec.Struct, _Description.struct),
    ((tuple, list, deque), _Description.items),
    (dict, _Description.dict),
    (set, _Description.set),
    (FunctionType, _Description.function),
    (MethodType, _Description.method),
    (object, _Description.object),
)
_DESCRIBERS: dict[type, _Describer] = {}
