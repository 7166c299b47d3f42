"""Stops of nodes at events of their journals: a node is killed just before or just after it writes an event.

If the node is killed before an event, it has done everything that precedes the event in its code, such as disk writes
and messages of earlier effects.  It does nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from zabka.journal.events import Event
from zabka.simulation.cluster.ensemble_world import ServingWorld
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.simulation.engine.machine import ProcessExited


class EventStop:
    """Kills a node once, at its next event of that type with these values of `fields`.

    `event` is the type as in the journal (`txn_committed`).  The node stays down.
    """

    def __init__(
        self, world: ServingWorld, node: str, event: str, *, before: bool = False,
        fields: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        self.happened = False
        """Whether the node was killed."""
        self._world = world
        self._machine = next(machine for machine in world.servers() if machine.name == node)
        self._event = event
        self._before = before
        self._fields = dict(fields or {})
        world.record.stops.append(self._written)

    def cancel(self) -> None:
        """Do not kill the node, unless that has happened already."""
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
