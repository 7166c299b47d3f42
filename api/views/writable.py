"""Determines why a partition does not acknowledge writes with acks=all. Pure functions.

`api/web/writable.js` does the same for the page. tests/golden/writable.json contains the expected results for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from zabka.ensemble.runtime.link_fault import LinkFault, impairment

NAMED_MAX = 3
"""Maximum number of partition names in a summary."""


def obstacle(
    *,
    leader: int,
    isr: Sequence[int],
    min_isr: int | None,
    lagging: Sequence[int],
    process_of: Callable[[int], str],
    faults: Sequence[LinkFault],
) -> str | None:
    """Return why a partition does not acknowledge writes with acks=all, or None if no reason is known.

    `lagging` are the ISR members that, according to the leader, have not caught up for replica.lag.time.max.ms. They
    are still in the ISR because the controller has not accepted their removal. `min_isr` is None if the leader has not
    reported it.
    """
    if leader < 0:
        return "it has no leader"
    process = process_of(leader)
    if process in ("down", "paused"):
        return f"its leader, broker {leader}, is {process}"
    if min_isr is not None and len(isr) < min_isr:
        return f"its ISR has {len(isr)} of the {min_isr} members that min.insync.replicas requires"
    cut_off = [broker for broker in isr if broker != leader and _is_cut(faults, leader, broker)]
    if cut_off:
        return f"its leader, broker {leader}, is cut off from {_brokers(cut_off)} in its ISR"
    waits_for = [broker for broker in isr if broker != leader and broker in lagging]
    if waits_for:
        followers = f"{_brokers(waits_for)} in its ISR"
        return f"its leader, broker {leader}, has waited for {followers} longer than replica.lag.time.max.ms"
    return None


def problems(faults: Iterable[LinkFault], unwritable: Iterable[tuple[str, str]]) -> list[str]:
    """Return one sentence per cut link, and one per reason why partitions cannot be written.

    `unwritable` contains pairs: a partition's name, and the reason why it cannot be written.
    """
    found = [f"the link {_link(fault)} is cut" for fault in faults if fault.kind == "cut"]
    by_reason: dict[str, list[str]] = {}
    for name, reason in unwritable:
        by_reason.setdefault(reason, []).append(name)
    found += [f"{_partitions(names)} cannot be written with acks=all: {reason}" for reason, names in by_reason.items()]
    return found


def _is_cut(faults: Iterable[LinkFault], one: int, other: int) -> bool:
    """Return whether a fault partitions two brokers in at least one direction. Replication needs both directions."""
    held = list(faults)
    ends = (f"broker-{one}", f"broker-{other}")
    return impairment(held, *ends).cut or impairment(held, *reversed(ends)).cut


def _link(fault: LinkFault) -> str:
    target = "all nodes" if fault.target == "*" else fault.target
    return f"{fault.source} {'↔' if fault.both_ways else '→'} {target}"


def _brokers(ids: Sequence[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {_listed([str(each) for each in ids])}"


def _partitions(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return _listed([*names[:NAMED_MAX], *([f"{more} more"] if more > 0 else [])])


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
