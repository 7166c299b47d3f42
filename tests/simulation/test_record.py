"""Functions that listen to the record of a world."""

from __future__ import annotations

from zabka.journal.events import NodeStarted, NodeStopped
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.record import Record


def test_listener_is_called_only_for_its_event_types() -> None:
    record, calls = Record(Scheduler()), list[tuple[str, str]]()
    record.listen(lambda entry: calls.append(("starts", type(entry.event).__name__)), (NodeStarted,))
    record.listen(lambda entry: calls.append(("all", type(entry.event).__name__)))
    record.listeners.append(lambda entry: calls.append(("last", type(entry.event).__name__)))
    record.write("a", 0, NodeStarted("program", 0, {}))
    record.write("a", 0, NodeStopped("returned"))
    record.listen(lambda entry: calls.append(("stops", type(entry.event).__name__)), (NodeStopped,))
    record.write("a", 0, NodeStopped("returned"))
    started, stopped = "NodeStarted", "NodeStopped"
    assert calls[:3] == [("starts", started), ("all", started), ("last", started)]
    assert calls[3:5] == [("all", stopped), ("last", stopped)]
    assert calls[5:] == [("all", stopped), ("stops", stopped), ("last", stopped)]
