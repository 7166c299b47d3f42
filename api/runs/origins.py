"""The seed that a stored run plays, and the changes of a fork, so that the run can be forked."""

from __future__ import annotations

import shlex
from typing import Any
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.runs.intake import SIMULATION_BEGINS_US
from zabka.simulation.fork import Change

_SECOND_US = 1_000_000


class ForkChange(BaseModel):
    """A change of a fork."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "at_us": 1700000008000000, "without": [], "kill": ["broker-2"], "pause": [], "lasts_ms": 10000, "settings": {},
        "from_start": False,
    }})  # fmt: skip

    at_us: int = Field(description="Its moment, on the clock of `wall_us`")
    without: list[str] = Field(default=[], description="Faults that are not injected")
    kill: list[str] = Field(default=[], description="Nodes that die there")
    pause: list[str] = Field(default=[], description="Nodes that are paused there")
    lasts_ms: int = Field(default=10_000, description="Time after which these nodes return")
    settings: dict[str, str] = {}
    from_start: bool = Field(default=False, description="Whether the settings are those of the whole fork")

    @classmethod
    def of(cls, change: Change) -> ForkChange:
        """Return the model of a change."""
        return cls(
            at_us=change.at_us + SIMULATION_BEGINS_US, without=[*change.left_out], kill=[*change.killed],
            pause=[*change.paused], lasts_ms=change.lasts_ms, settings={**change.settings, **change.started_with},
            from_start=bool(change.started_with),
        )  # fmt: skip

    def change(self) -> Change:
        """Return the change, on the simulated world's clock."""
        return Change(
            self.at_us - SIMULATION_BEGINS_US, left_out=(*self.without,), killed=(*self.kill,), paused=(*self.pause,),
            lasts_ms=self.lasts_ms, settings={} if self.from_start else self.settings,
            started_with=self.settings if self.from_start else {},
        )  # fmt: skip


class Origin(BaseModel):
    """The seed that a run plays, and its changes if it is a fork."""

    scenario: str
    seed: int
    changes: list[ForkChange] = Field(default=[], description="In the order of their times")


def origin_in(link: str | None, replay: str | None) -> Origin | None:
    """Return the origin of a run that was stored without one, from its link or its command.

    Return None if the run has no origin, or if these cannot be read.
    """
    try:
        return _origin_in(link, replay)
    except (ValueError, KeyError):
        return None


def _origin_in(link: str | None, replay: str | None) -> Origin | None:
    found = parse_qs(link or "")
    if "seed" in found and "scenario" in found:
        return Origin(scenario=found["scenario"][0], seed=int(found["seed"][0]))
    verb, *words = shlex.split(replay or "")[1:] or [""]
    if verb != "what-if":
        return None
    options: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        options.setdefault(option, []).append(value)
    at = options.get("--at", [None])[0]
    change: dict[str, Any] = {name: options.get(f"--{name}", []) for name in ("without", "kill", "pause")}
    if "--for" in options:
        change["lasts_ms"] = round(float(options["--for"][0].removesuffix("s")) * 1000)
    change["settings"] = dict(each.split("=", 1) for each in options.get("--set", []))
    change["from_start"] = at is None and bool(change["settings"])
    # A fault that is left out has a time of its own: leaving it out from the start on has the same effect.
    change["at_us"] = SIMULATION_BEGINS_US + (0 if at is None else round(float(at.removesuffix("s")) * _SECOND_US))
    return Origin(scenario=options["--scenario"][0], seed=int(options["--seed"][0]), changes=[ForkChange(**change)])
