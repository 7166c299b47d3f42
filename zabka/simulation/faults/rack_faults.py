"""Rack faults: a power loss, and a failed switch.  They are possible only in worlds whose brokers have racks."""

from __future__ import annotations

from zabka.simulation.cluster.node_names import broker_name, rack_name
from zabka.simulation.faults.nemesis import Action, Nemesis, all_of


def _some_rack(nemesis: Nemesis) -> list[str]:
    """Return the names of the brokers in a randomly chosen rack."""
    settings = nemesis.world.settings
    chosen = nemesis.pick([f"rack-{number}" for number in range(1, settings.racks + 1)])
    return [broker_name(b) for b in range(1, settings.brokers + 1) if rack_name(b, settings.racks) == chosen]


def power_loss_rack(nemesis: Nemesis) -> None:
    """Cut the power of all brokers of a rack at the same time, and start them together later."""
    lasts_ms = nemesis.draw_lasts_ms()
    for name in _some_rack(nemesis):
        if nemesis.world.is_running(name):
            nemesis.world.kill(name, power_loss=True)
            nemesis.until_healed(lambda name=name: nemesis.world.start(name), lasts_ms)  # type: ignore[misc]


def isolate_rack(nemesis: Nemesis) -> None:
    """Cut the brokers of a rack off from all nodes outside the rack."""
    inside = _some_rack(nemesis)
    outside = [name for name in nemesis.world.node_names() if name not in inside]
    nemesis.until_healed(all_of([nemesis.world.cut(name, other) for name in inside for other in outside]))


RACK_FAULTS: dict[str, Action] = {"power_loss_rack": power_loss_rack, "isolate_rack": isolate_rack}
