"""Groups of options on a command line: each occurrence of one option begins a group (`zabka what-if --at`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand

_ORDER = "zabka.order"


class OrderedCommand(TyperCommand):
    """A command that records the order of its options: the parser only collects the values of each option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line."""
        *_, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [param.name for param in order]
        return super().parse_args(ctx, args)


def order_of(ctx: Any) -> list[str]:
    """Return the parameter of each option on the command line, in order."""
    found: list[str] = ctx.meta[_ORDER]
    return found


class NotGrouped(Exception):
    """An option is not in a group. The message is its parameter."""


def grouped(order: Sequence[str], first: str, values: Mapping[str, Sequence[str]]) -> list[dict[str, list[str]]]:
    """Divide the values of options into groups, each of which begins with the option `first`.

    If `first` occurs at most once, all values are in one group. Raises NotGrouped for an option that stands before the
    first group, or whose values are from the environment.
    """
    if len(values[first]) < 2:
        return [{name: list(found) for name, found in values.items()}]
    groups: list[dict[str, list[str]]] = []
    left = {name: list(found) for name, found in values.items()}
    for name in order:
        if name == first:
            groups.append({each: [] for each in values})
        if name in values:
            if not groups:
                raise NotGrouped(name)
            groups[-1][name].append(left[name].pop(0))
    for name, rest in left.items():
        if rest:
            raise NotGrouped(name)
    return groups
