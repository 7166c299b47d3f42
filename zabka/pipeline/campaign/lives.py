"""Tracks which nodes have a running process, according to a journal's events."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.events import Entry

ENDS = ("crash", "power_loss", "kill", "exited")
PAUSES = ("pause", "stopped")
TAKES = frozenset([e.NodeStarted, e.FaultInjected, e.ProcessChanged, e.NodeStopped])
"""Event types that this module evaluates. In addition, any event of a paused node shows that it has resumed."""


class Lives:
    """The nodes that are down or paused. Pass every entry to `see`.

    No journal records when a paused node resumed, so the time of its first event after the pause is used.
    """

    def __init__(self) -> None:
        self._down: dict[str, None] = {}
        self._paused: dict[str, None] = {}

    def works(self, node: str) -> bool:
        """Return whether the node's process exists and is not paused."""
        return node not in self._down and node not in self._paused

    def exists(self, node: str) -> bool:
        """Return whether the node's process exists, paused or not."""
        return node not in self._down

    def stands_still(self, node: str) -> bool:
        """Return whether the node's process is paused."""
        return node in self._paused

    def see(self, entry: Entry) -> tuple[str, str] | None:
        """Process the next entry. Return the node that the entry stopped, and the cause; None if the entry stopped no
        node.
        """
        event, node = entry.event, entry.node
        if type(event) not in TAKES:
            self._paused.pop(node, None)
            return None
        if isinstance(event, e.NodeStarted):
            self._down.pop(node, None)
        self._paused.pop(node, None)
        if isinstance(event, e.FaultInjected):
            return self._stops(event.target, event.kind)
        if isinstance(event, e.ProcessChanged):
            if event.process == "running":
                self._down.pop(event.target, None)
                self._paused.pop(event.target, None)
                return None
            return self._stops(event.target, "kill" if event.process == "down" else "pause")
        if isinstance(event, e.NodeStopped):
            return self._stops(node, "exited")
        return None

    def _stops(self, node: str, kind: str) -> tuple[str, str] | None:
        worked = self.works(node)
        if kind in ENDS:
            self._down[node] = None
            self._paused.pop(node, None)
        elif kind in PAUSES:
            if node in self._down:
                return None
            self._paused[node] = None
        else:
            return None
        return (node, kind) if worked else None
