"""Reference page of the outage library: each scenario with its title and the rule that it tests."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.reference.markdown import code, document, sentence, table
from zabka.controller.historical import HISTORICAL_KEY
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import AnyScenario, CoreScenario, FileScenario, WorldScenario
from zabka.testing.live.scenarios import LivePlayer

_INTRODUCTION = (
    "Outages of ZooKeeper and Kafka as scenarios. `zabka scenarios run NAME` runs one and checks its rule; `--story` "
    "prints each step. In a scenario of the **bare protocol** every packet and every fsync is a step. With **real "
    "files** each peer's disk is a directory that the real storage code uses. A scenario of a **whole cluster** has "
    "clients too. A scenario with a bug runs twice: without the bug the rule must hold, and with it the outage must "
    "show."
)
_DRIVERS: dict[type[AnyScenario], str] = {
    CoreScenario: "the bare protocol",
    FileScenario: "the bare protocol with real files",
    WorldScenario: "a whole cluster",
}


def page() -> str:
    """Return the page of the outage library."""
    player = LivePlayer()
    listed = table(
        ["name", "what went wrong upstream", "`--live`"],
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
    yield f"- Runs on {driver}, {sizes}, {len(scenario.steps)} steps."
    if scenario.source:
        yield f"- Source: {scenario.source}; fixed upstream in: {scenario.fixed or 'not stated'}."
    if isinstance(scenario, WorldScenario) and scenario.bug:
        bug = ", ".join(
            code(f"{key}={value}" if key != HISTORICAL_KEY else f"{HISTORICAL_KEY}={value}")
            for key, value in scenario.bug.items()
        )
        yield f"- Its bug: {bug}" + (f"; reported as {code(scenario.shows)}." if scenario.shows else ".")
    if obstacle := player.unplayable(scenario):
        yield f"- Not `--live`: {sentence(obstacle)}"
    yield ""
