"""JSON request and response models of what-if questions about the live cluster, with examples."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.views.models import Body

BUDGET_S = 8.0
BUDGET_S_MAX = 60.0
_TIMES: dict[str, Any] = {"median_ms": 6100, "p90_ms": 6400, "longest_ms": 6600, "never": 0}


class NewWhatIf(Body):
    """A question: what would happen if this node died now?"""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"kill": "broker-2", "acks": "all", "budget_s": 8}}
    )

    kill: str = Field(
        pattern=r"^(broker|peer)-(0|[1-9][0-9]{0,9})$", description="The node that dies, such as broker-2"
    )
    acks: Literal["all", "1"] = Field("all", description="With which acks the producers of the futures write")
    budget_s: float = Field(BUDGET_S, ge=2, le=BUDGET_S_MAX, description="Seconds in which futures begin")


class FutureShare(BaseModel):
    """Number of futures, and the 95 % confidence interval of their share."""

    count: int
    low: float
    high: float


class FutureTimes(BaseModel):
    """Distribution of a time after the death. A percentile that falls on a future without that time is null."""

    median_ms: int | None
    p90_ms: int | None
    longest_ms: int | None = Field(description="The longest of those that are known")
    never: int = Field(description="Number of futures in which it did not happen before their end")


class Forecast(BaseModel):
    """Distribution over the futures that have ended so far."""

    killed: str
    acks: str
    read_at_us: int
    futures: int = Field(description="Number of futures that were run")
    horizon_ms: int = Field(description="Time after the death at which a future ends at the latest")
    took_ms: int
    ended: bool
    lost: FutureShare = Field(description="Futures that lose acknowledged records")
    controller: FutureTimes = Field(description="Time until a controller makes decisions; 0 if it stays")
    writable: FutureTimes = Field(description="Time until each partition that was writable before is writable again")
    quorum: FutureTimes = Field(description="Time until the ensemble has a leader that a quorum follows; 0 if it stays")
    unwritable: dict[str, int] = Field(
        description="Partitions that are not writable until the node returns, with the number of such futures"
    )
    problems: int = Field(description="Futures that violated an invariant, which is a bug: please report it")
    limits: list[str] = Field(description="What of the live state the futures do not have")


class WhatIf(BaseModel):
    """A what-if question, and its answer so far."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "id": "w1a2b3c4d", "kill": "broker-2", "state": "ended", "read_at_us": 1700000000000000, "seq": 812,
        "budget_s": 8, "error": None,
        "forecast": {
            "killed": "broker-2", "acks": "all", "read_at_us": 1700000000000000, "futures": 24, "horizon_ms": 19000,
            "took_ms": 8021, "ended": True, "lost": {"count": 0, "low": 0, "high": 0.138}, "controller": _TIMES,
            "writable": _TIMES, "quorum": {"median_ms": 0, "p90_ms": 0, "longest_ms": 0, "never": 0},
            "unwritable": {}, "problems": 0, "limits": ["Consumer groups, transactions and internal topics."],
        },
    }})  # fmt: skip

    id: str
    kill: str
    state: Literal["running", "ended"]
    read_at_us: int = Field(description="Time at which the live state was read, by the API's clock")
    seq: int = Field(description="Event number of the live state")
    budget_s: float
    forecast: Forecast | None = Field(description="Null until the first future has ended")
    error: str | None = Field(description="Why there is no answer")
