"""Tracks which nodes have a running process, according to a journal."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.events import Entry

ENDS = ("crash", "power_loss", "kill", "exited")
PAUSES = ("pause", "stopped")
TAKES = frozenset([e.NodeStarted, e.FaultInjected, e.ProcessChanged, e.NodeStopped])
"""The event types that this module evaluates, in addition to any line of a paused node."""


class Lives:
    """Nodes that are down or paused. Pass it every entry.

    No journal records when a paused node resumed, so the time of its first line after the pause is used.
    """

    def __init__(self) -> None:
        self._down: dict[str, None] = {}
        self._paused: dict[str, None] = {}

    def works(self, node: str) -> bool:
        """Return whether the node's process runs and is not paused."""
        return node not in self._down and node not in self._paused

    def exists(self, node: str) -> bool:
        """Return whether the node has a process, paused or not."""
        return node not in self._down

    def stands_still(self, node: str) -> bool:
        """Return whether the node's process is paused."""
        return node in self._paused

    def see(self, entry: Entry) -> tuple[str, str] | None:
        """Process the next entry; return the node that it stopped and the cause, or None."""
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
