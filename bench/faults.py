"""Faults in a live cluster, one after the other: kills, stops, pauses and cut links, each healed before the next."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence

from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.nodes import Node

Victim = Callable[[LiveCluster, random.Random], Node | None]
"""Chooses the node of the next fault; None for any broker."""


class FaultInjector:
    """Draws faults from `kinds`: kill, kill two, stop, pause, isolate (from all nodes), cut (from one other), cut one
    way.  Each lasts one of `lasts_s` seconds and is followed by a pause of up to `rest_s`."""

    def __init__(
        self, cluster: LiveCluster, seed: int, victim: Victim, kinds: Sequence[str], lasts_s: Sequence[float],
        rest_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.done: Counter[str] = Counter()
        self._cluster = cluster
        self._random = random.Random(f"{seed}/faults")
        self._victim = victim
        self._kinds = kinds
        self._lasts_s = lasts_s
        self._rest_s = rest_s

    def run(self, seconds: float, stopped: Callable[[], bool]) -> None:
        """Inject faults for that long, or until `stopped`."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not stopped():
            self.inject()

    def inject(self) -> None:
        """One fault.  Raises ClusterFailed if it cannot be healed."""
        cluster, kind, lasts_s = self._cluster, self._random.choice(self._kinds), self._random.choice(self._lasts_s)
        victim = self._victim(cluster, self._random) or self._random.choice(list(cluster.brokers.values()))
        others: list[Node] = [n for n in (*cluster.peers.values(), *cluster.brokers.values()) if n is not victim]
        if kind == "pause":
            victim.pause()
            cluster.let_pass(lasts_s)
            victim.resume()
        elif kind in ("isolate", "cut", "cut one way"):
            target = "*" if kind == "isolate" else self._random.choice(others)
            fault = cluster.faults.cut(victim, target, both_ways=kind != "cut one way")
            cluster.let_pass(lasts_s)
            fault.heal()
        else:
            second = next(n for n in others if type(n) is type(victim))
            victims = [victim, second] if kind == "kill two" else [victim]
            for node in victims:
                node.stop() if kind == "stop" else node.kill()
            cluster.let_pass(lasts_s)
            for node in victims:
                node.start()
        self.done[f"{kind} of a {'broker' if victim.name.startswith('broker') else 'peer'}"] += 1
        cluster.let_pass(self._random.uniform(self._rest_s / 4, self._rest_s))


def counted(done: Counter[str]) -> str:
    """The faults by kind, for the summary of a run."""
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(done.items())) or "no fault"
