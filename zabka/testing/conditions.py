"""Waits for a condition: evaluates it, finds its source code, and writes the message if it does not become true.

A condition is evaluated again if it returned a false value, or raised an AssertionError, a KeyError or IndexError, an
error of the operating system such as a refused connection, or an error of a Kafka or ZooKeeper client. Any other
exception is a mistake in the condition, and ends the wait at once.
"""

from __future__ import annotations

import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

SOURCE_LINES_MAX = 12
_SEEN_MAX = 2_000

_OF_CLIENTS = {
    "aiokafka.errors": ("KafkaError",),
    "confluent_kafka": ("KafkaException",),
    "kafka.errors": ("KafkaError",),
    "kazoo.exceptions": ("KazooException",),
    "kazoo.handlers.threading": ("KazooTimeoutError",),
    "zabka.ensemble.errors": ("ZooKeeperError",),
    "zabka.kafka.client.client_errors": ("KafkaRequestFailed", "KafkaUnavailable"),
}
"""Base classes of the errors of client libraries. A library that the test has not imported cannot raise errors."""


def retried_errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions after which a condition is evaluated again."""
    found: list[type[BaseException]] = [AssertionError, KeyError, IndexError, OSError]
    for module, names in _OF_CLIENTS.items():
        if module in sys.modules:
            found += [getattr(sys.modules[module], name) for name in names if hasattr(sys.modules[module], name)]
    return tuple(found)


class Wait(Generic[T]):
    """One wait for a condition to become true."""

    def __init__(self, condition: Callable[..., object], timeout_s: float, what: str) -> None:
        self._condition = condition
        self._timeout_s = timeout_s
        self._what = what
        self._seen = "it was not evaluated"

    def holds(self) -> T | None:
        """Evaluate the condition; return its value if it is true, else None."""
        with self.evaluation() as found:
            found.append(self._condition())
        return found[0] if found else None

    @contextmanager
    def evaluation(self) -> Iterator[list[Any]]:
        """Context manager for one evaluation of the condition, whose value the caller puts into the yielded list.

        The value, or a retried exception, is stored for the error message. Afterwards, the list contains the value only
        if it is true.
        """
        found: list[Any] = []
        try:
            yield found
        except retried_errors() as error:
            self._seen = f"it last raised {type(error).__name__}: {error}"
            found.clear()
        else:
            self._seen = f"it last returned {found[0]!r}"
            if not found[0]:
                found.clear()

    def failure(self) -> str:
        """Return the message for a wait that failed."""
        source = source_of(self._condition)
        shown = f"`{source}`" if "\n" not in source else f"\n{textwrap.indent(source, '    ')}\n"
        seen = self._seen if len(self._seen) <= _SEEN_MAX else f"{self._seen[:_SEEN_MAX]} …"
        return f"{self._what or 'the condition'} {shown} did not come true within {self._timeout_s} s; {seen}"


def source_of(condition: Callable[..., object]) -> str:
    """Return the source code of a condition: the expression of a lambda, the lines of a function, or its repr."""
    code = getattr(condition, "__code__", None)
    if not isinstance(code, CodeType):
        return repr(condition)
    if code.co_name == "<lambda>":
        return _expression(code) or repr(condition)
    try:
        lines = textwrap.dedent(inspect.getsource(code)).rstrip().splitlines()
    except (OSError, TypeError):
        return repr(condition)
    more = ["..."] if len(lines) > SOURCE_LINES_MAX else []
    return "\n".join(lines[:SOURCE_LINES_MAX] + more)


def _expression(code: CodeType) -> str:
    """Return the source code between the first and the last instruction of a lambda, without line breaks."""
    begins, ends = [], []
    for begin_line, end_line, begin, end in code.co_positions():
        # Instructions without a source position have begin == end.
        if begin_line is not None and end_line is not None and begin is not None and end is not None and begin != end:
            begins.append((begin_line, begin))
            ends.append((end_line, end))
    if not begins:
        return ""
    (first, begin), (last, end) = min(begins), max(ends)
    lines = [linecache.getline(code.co_filename, number) for number in range(first, last + 1)]
    # Encode the lines, because instruction positions are counted in bytes of UTF-8.
    cut = [line.encode() for line in lines]
    cut[-1] = cut[-1][:end]
    cut[0] = cut[0][begin:]
    return " ".join(b" ".join(cut).decode(errors="replace").split())
