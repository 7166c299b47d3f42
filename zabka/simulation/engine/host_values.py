"""Replaces host values that a test's programs read while their world runs: clocks, random numbers and names.

Functions such as `datetime.now` are methods of C types. This module replaces them in the dictionaries of these types,
so that modules that have already imported the types also use the replacement.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from zabka.simulation.engine.virtual_time import Clocked

Taker = Callable[[], "Clocked | None"]
"""Returns the program that is running, or None if no program is running."""


@contextmanager
def virtual_values(taker: Taker, seeded: Callable[[int], bytes], name_of: Callable[[], str]) -> Iterator[None]:
    """Replace the clocks and random bytes that the running program reads, within a `with` block.

    `seeded` returns random bytes that depend on the seed, and `name_of` returns the name of the program's machine.
    """
    replaced = [*_random_values(taker, seeded), *_clocks(taker), *_names(taker, seeded, name_of)]
    originals = [(owner, attribute, getattr(owner, attribute, None)) for owner, attribute, _ in replaced]
    for owner, attribute, replacement in replaced:
        setattr(owner, attribute, replacement)
    try:
        with _virtual_now(taker):
            yield
    finally:
        for owner, attribute, original in originals:
            setattr(owner, attribute, original)


def _random_values(taker: Taker, seeded: Callable[[int], bytes]) -> list[tuple[Any, str, Any]]:
    urandom, seed = os.urandom, random.Random.seed

    def random_bytes(size: int, /) -> bytes:
        return urandom(size) if taker() is None else seeded(size)

    @wraps(seed)
    def seed_from(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, int.from_bytes(seeded(16), "big") if a is None and taker() is not None else a, version)

    return [
        (os, "urandom", random_bytes),
        # `random` has imported os.urandom by this name, for SystemRandom and for `secrets`.
        (random, "_urandom", random_bytes),
        (random.Random, "seed", seed_from),
    ]


def _clocks(taker: Taker) -> list[tuple[Any, str, Any]]:
    def of_turn(original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a version of localtime, gmtime or ctime whose default argument is the program's wall clock."""

        @wraps(original)
        def convert(seconds: float | None = None, /) -> Any:
            turn = taker()
            return original(turn.wall_ns() / 1e9 if seconds is None and turn is not None else seconds)

        return convert

    @wraps(time.strftime)
    def strftime(format: str, when: Any = None, /) -> str:
        return original_strftime(format, when if when is not None else time.localtime())

    def in_ns(original: Callable[[], int]) -> Callable[[], int]:
        return lambda: original() if (turn := taker()) is None else turn.mono_ns()

    def in_seconds(original: Callable[[], float]) -> Callable[[], float]:
        return lambda: original() if (turn := taker()) is None else turn.mono_ns() / 1e9

    original_strftime = time.strftime
    counters = ("perf_counter", "process_time", "thread_time")
    return [
        *((time, name, of_turn(getattr(time, name))) for name in ("localtime", "gmtime", "ctime")),
        (time, "strftime", strftime),
        *((time, name, in_seconds(getattr(time, name))) for name in counters),
        *((time, f"{name}_ns", in_ns(getattr(time, f"{name}_ns"))) for name in counters),
    ]


def _names(taker: Taker, seeded: Callable[[int], bytes], name_of: Callable[[], str]) -> list[tuple[Any, str, Any]]:
    gethostname, getnode = socket.gethostname, uuid.getnode
    node: list[int] = []

    def hostname() -> str:
        return gethostname() if taker() is None else name_of()

    def hardware_address() -> int:
        if taker() is None:
            return getnode()
        if not node:
            node.append(int.from_bytes(seeded(6), "big") | 1 << 40)
        return node[0]

    return [
        (socket, "gethostname", hostname),
        (socket, "getfqdn", lambda name="": name or hostname()),
        (uuid, "getnode", hardware_address),
        # If this C function is missing, `uuid1` computes its value in Python, from `time` and `random`.
        (uuid, "_generate_time_safe", None),
        (uuid, "_last_timestamp", None),
    ]


@contextmanager
def _virtual_now(taker: Taker) -> Iterator[None]:
    """Replace `now` and `utcnow` of `datetime`; `today` calls `time.time`."""
    attributes = vars(datetime.datetime)
    now, utcnow = attributes["now"], attributes["utcnow"]

    def now_of_turn(cls: Any, tz: datetime.tzinfo | None = None) -> Any:
        turn = taker()
        if turn is None:
            return now.__get__(None, cls)(tz)
        seconds, us = divmod(turn.wall_ns() // 1000, 1_000_000)
        return cls.fromtimestamp(seconds, tz).replace(microsecond=us)

    def utcnow_of_turn(cls: Any) -> Any:
        turn = taker()
        if turn is None:
            return utcnow.__get__(None, cls)()
        seconds, us = divmod(turn.wall_ns() // 1000, 1_000_000)
        return cls.fromtimestamp(seconds, datetime.UTC).replace(microsecond=us, tzinfo=None)

    _set_in_type(datetime.datetime, now=classmethod(now_of_turn), utcnow=classmethod(utcnow_of_turn))
    try:
        yield
    finally:
        _set_in_type(datetime.datetime, now=now, utcnow=utcnow)


def _set_in_type(owner: type, **values: Any) -> None:
    """Set attributes of a C type, which `setattr` rejects."""
    gc.get_referents(vars(owner))[0].update(values)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def stamp_records_of_aiokafka() -> bool:
    """Make aiokafka's producer read `time.time` at each call to get a record's timestamp.

    The producer's batch classes, in Python and in C, store the clock function that they find at import. Return False if
    aiokafka is not imported yet.
    """
    module = sys.modules.get("aiokafka.producer.message_accumulator")
    if module is None or not hasattr(module, "BatchBuilder"):
        return False
    append = module.BatchBuilder.append
    if hasattr(append, "__wrapped__"):
        return True

    @wraps(append)
    def stamped(self: Any, *, timestamp: int | None, **fields: Any) -> Any:
        return append(self, timestamp=round(time.time() * 1000) if timestamp is None else timestamp, **fields)

    module.BatchBuilder.append = stamped
    return True
