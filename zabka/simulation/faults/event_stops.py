"""Kills a node at an event of its journal: just before or just after the node writes the event.

If the node is killed before an event, it has executed all code that precedes the event, such as disk writes and the
sending of earlier messages, and no later code.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from zabka.journal.events import Event
from zabka.simulation.cluster.ensemble_world import ServingWorld
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.simulation.engine.machine import ProcessExited


class EventStop:
    """Kills a node once, at its next event of type `event` whose fields have the values in `fields`.

    `event` is the event type's name in the journal (such as `txn_committed`).  The node stays down.
    """

    def __init__(
        self, world: ServingWorld, node: str, event: str, *, before: bool = False,
        fields: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        self.happened = False
        """Whether the node has been killed at the event."""
        self._world = world
        self._machine = next(machine for machine in world.servers() if machine.name == node)
        self._event = event
        self._before = before
        self._fields = dict(fields or {})
        world.record.stops.append(self._written)

    def cancel(self) -> None:
        """Stop waiting for the event, so that the node is not killed."""
        if not self.happened:
            self._world.record.stops.remove(self._written)

    def _written(self, node: str, event: Event, before: bool) -> None:
        machine: ServerMachine = self._machine
        if node == machine.name and before == self._before and self._matches(event):
            self.happened = True
            self._world.record.stops.remove(self._written)
            self._world.announce("crash", node)
            machine.kill()
            raise ProcessExited

    def _matches(self, event: Event) -> bool:
        if event.__struct_config__.tag != self._event:
            return False
        found = msgspec.structs.asdict(event)
        return all(found.get(name) == value for name, value in self._fields.items())
