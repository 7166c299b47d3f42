"""Reference page of the outage library: each scenario with its title and the rule that it tests."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.reference.markdown import code, document, sentence, table
from zabka.controller.historical import HISTORICAL_KEY
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import AnyScenario, CoreScenario, FileScenario, WorldScenario, decode_scenario
from zabka.simulation.scenarios.subjects import SUBJECTS
from zabka.testing.live.scenarios import LivePlayer

_INTRODUCTION = (
    "Outages of ZooKeeper and Kafka as scenarios. `zabka scenarios run NAME` runs one and checks its rule; `--story` "
    "prints each step. In a scenario of the **bare protocol** every packet and every fsync is a step. With **real "
    "files** each peer's disk is a directory that the real storage code uses. A scenario of a **whole cluster** has "
    "clients too. A scenario with a bug runs twice: without the bug the rule must hold, and with it the outage must "
    "show."
)
_EXAMPLE = """\
{"driver": "world", "name": "two-faults", "title": "A broker dies, then the network splits",
 "hypothesis": "The cluster recovers.", "subjects": ["network"], "peers": 3, "brokers": 3, "steps": [
  {"type": "At", "ms": 5000}, {"type": "Kill", "nodes": ["broker-2"]}, {"type": "At", "ms": 8000},
  {"type": "Split", "sides": [["broker-1", "peer-1"], ["broker-3", "peer-2", "peer-3"]]},
  {"type": "At", "ms": 20000}, {"type": "Heal"}, {"type": "At", "ms": 30000}]}"""
_FILES = (
    "A scenario can also be a JSON file, with the fields that `zabka scenarios list --json` prints; the page's Lab "
    "composes, records and saves such files. `zabka scenarios run FILE` runs one in a simulated world, with `--on URL` "
    "on a running cluster, and `zabka simulate --scenario FILE` with many seeds. `At` gives the next steps a time, in "
    "milliseconds since the first `At`. After the last step all faults end, all nodes start, and the checks follow.\n\n"
    f"```json\n{_EXAMPLE}\n```\n\nThe subjects are {', '.join(SUBJECTS)}.\n"
)
_DRIVERS: dict[type[AnyScenario], str] = {
    CoreScenario: "the bare protocol",
    FileScenario: "the bare protocol with real files",
    WorldScenario: "a whole cluster",
}


def page() -> str:
    """Return the page of the outage library."""
    decode_scenario(_EXAMPLE.encode())
    player = LivePlayer()
    listed = table(
        ["name", "subjects", "what went wrong upstream", "`--live`"],
        (
            [
                f"[`{s.name}`](#{s.name.replace('.', '')})", ", ".join(s.subjects), s.title,
                "" if player.unplayable(s) else "yes",
            ]
            for s in LIBRARY.values()
        ),
    )  # fmt: skip
    return document(
        "Scenarios", _INTRODUCTION, _FILES, listed, *("\n".join(_section(s, player)) for s in LIBRARY.values())
    )


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
