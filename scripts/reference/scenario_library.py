"""The outage library: each scenario with its title and the rule that it tests."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.reference.markdown import code, document, sentence, table
from zabka.controller.historical import HISTORICAL_KEY
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import AnyScenario, CoreScenario, FileScenario, WorldScenario
from zabka.testing.live.scenarios import LivePlayer

_INTRODUCTION = (
    "Outages of ZooKeeper and Kafka as scripts. `zabka scenarios run NAME` plays one and says whether its rule "
    "held; `--story` tells each step. A script over the **bare protocol** makes every packet and every fsync a "
    "step; with **real files** each peer's disk is a directory under the storage that serves; a script over a **whole "
    "cluster** has clients too. Where a bug is named, the script is played twice: without it, when the rule must "
    "hold, and with it, when the outage must show."
)
_DRIVERS: dict[type[AnyScenario], str] = {
    CoreScenario: "the bare protocol",
    FileScenario: "the bare protocol with real files",
    WorldScenario: "a whole cluster",
}


def page() -> str:
    """The page."""
    player = LivePlayer()
    listed = table(
        ["name", "what went wrong elsewhere", "`--live`"],
        (
            [f"[`{s.name}`](#{s.name.replace('.', '')})", s.title, "" if player.unplayable(s) else "yes"]
            for s in LIBRARY.values()
        ),
    )
    return document("Scenarios", _INTRODUCTION, listed, *("\n".join(_section(s, player)) for s in LIBRARY.values()))


def _section(scenario: AnyScenario, player: LivePlayer) -> Iterator[str]:
    yield f"## {scenario.name}\n\n{scenario.title}.\n"
    yield f"- The rule: {sentence(scenario.hypothesis)}"
    driver = _DRIVERS[type(scenario)]
    sizes = f"{scenario.peers} peers"
    if isinstance(scenario, WorldScenario) and scenario.brokers:
        sizes += f", {scenario.brokers} brokers"
    yield f"- Played over {driver}, {sizes}, {len(scenario.steps)} steps."
    if scenario.source:
        yield f"- Seen in: {scenario.source}; fixed there in: {scenario.fixed or 'not said'}."
    if isinstance(scenario, WorldScenario) and scenario.bug:
        bug = ", ".join(
            code(f"{key}={value}" if key != HISTORICAL_KEY else f"{HISTORICAL_KEY}={value}")
            for key, value in scenario.bug.items()
        )
        yield f"- Its bug: {bug}" + (f"; it shows by {code(scenario.shows)}." if scenario.shows else ".")
    if obstacle := player.unplayable(scenario):
        yield f"- Not `--live`: {sentence(obstacle)}"
    yield ""
