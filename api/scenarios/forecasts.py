"""Answers what-if questions about the live cluster, in a child process that simulates futures of the live state."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import msgspec
import structlog
from pydantic import ValidationError

from zabka.api.http.problems import Problem
from zabka.api.scenarios.forecast_models import Forecast, NewWhatIf, WhatIf
from zabka.api.scenarios.process import PlayerFailed
from zabka.api.views.models import Broker, Cluster, FaultView, Peer, Topic
from zabka.ensemble.runtime.link_fault import HeldFault, LinkFault
from zabka.simulation.mirror.live_state import (
    ENSEMBLE_KEYS,
    LiveNode,
    LivePartition,
    LiveState,
    LiveTopic,
    NoMirror,
    mirrored,
)

log = structlog.get_logger()

SPARE_S = 20.0
"""Seconds that the process has beyond its budget until it is terminated."""
REMEMBERED_MAX = 20
_ACKS = {"all": -1, "1": 1}
_LONG_TICK_MS, _SHORT_TICK_MS = 2_000, 500
_TICKS_MAX = 20
"""A session timeout has at most this many ticks."""


class Follower(Protocol):
    """Runs `zabka` with a subcommand and its arguments, and yields the lines of its output.  Raises PlayerFailed."""

    def follow(self, *arguments: str, feed: bytes, patience_s: float) -> AsyncIterator[bytes]: ...


class Forecasts:
    """Runs one what-if question at a time, and remembers the last answers."""

    def __init__(self, player: Follower) -> None:
        self.player = player
        self._asked: dict[str, WhatIf] = {}
        self._task: asyncio.Task[None] | None = None

    def request(self, requested: NewWhatIf, state: LiveState, seq: int) -> WhatIf:
        """Begin to answer a question about this state.

        Raises Problem: 404 if there is no such node, 409 if the state allows no forecast or another one is running.
        """
        if self._task is not None and not self._task.done():
            raise Problem(409, "another what-if is running; try again when it has ended")
        acks = _ACKS[requested.acks]
        try:
            mirrored(state, requested.kill, acks)
        except NoMirror as reason:
            raise Problem(404 if str(reason).startswith("there is no node") else 409, str(reason)) from None
        asked = WhatIf(
            id=f"w{secrets.token_hex(4)}", kill=requested.kill, state="running", read_at_us=state.read_at_us, seq=seq,
            budget_s=requested.budget_s, forecast=None, error=None,
        )  # fmt: skip
        self._asked[asked.id] = asked
        self._task = asyncio.create_task(self._answer(asked.id, requested, state))
        for old in list(self._asked)[:-REMEMBERED_MAX]:
            del self._asked[old]
        return asked

    def get(self, asked: str) -> WhatIf:
        """Return a question with its answer so far.  Raises Problem 404."""
        found = self._asked.get(asked)
        if found is None:
            raise Problem(404, f"there is no what-if {asked}; the last {REMEMBERED_MAX} are available")
        return found

    async def _answer(self, asked: str, requested: NewWhatIf, state: LiveState) -> None:
        arguments = (
            "what-if", "--state", "-", "--kill", requested.kill, "--acks", requested.acks,
            "--budget", f"{requested.budget_s:g}s", "--json",
        )  # fmt: skip
        changes: dict[str, Any] = {}
        try:
            lines = self.player.follow(
                *arguments, feed=msgspec.json.encode(state), patience_s=requested.budget_s + SPARE_S
            )
            async with aclosing(lines) as lines:  # type: ignore[type-var]
                async for line in lines:
                    self._change(asked, forecast=Forecast.model_validate_json(line))
        except (PlayerFailed, ValidationError, OSError) as reason:
            changes["error"] = str(reason)
        except Exception as mistake:
            log.exception("a what-if ended by a mistake", asked=asked)
            changes["error"] = f"internal error: {mistake!r}; see the API's log"
        finally:
            self._change(asked, state="ended", **changes)

    def _change(self, asked: str, **changes: Any) -> None:
        self._asked[asked] = self._asked[asked].model_copy(update=changes)

    async def close(self) -> None:
        """End the running question and its process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def live_state(cluster: Cluster, ensemble: Mapping[str, str], broker: Mapping[str, str]) -> LiveState:
    """Return the state from which futures begin.

    `ensemble` and `broker` are the settings of a peer and of a broker; they are empty if these did not reply.  Raises
    Problem 409 if the state is out of date.
    """
    if cluster.stale:
        raise Problem(409, "the ensemble has no quorum, so the state is out of date. Ask again when it has one")
    unread, keys = [], dict(broker)
    session_ms = int(keys.setdefault("zookeeper.session.timeout.ms", str(cluster.settings["session_timeout_ms"])))
    ensemble_keys = {key: value for key, value in ensemble.items() if key in ENSEMBLE_KEYS}
    if "tickTime" not in ensemble_keys:
        tick_ms = _SHORT_TICK_MS if session_ms <= _TICKS_MAX * _SHORT_TICK_MS else _LONG_TICK_MS
        ensemble_keys["tickTime"] = str(tick_ms)
        unread.append(f"The settings of the peers, which did not reply to conf: tickTime is taken to be {tick_ms} ms.")
    if not broker:
        unread.append("The settings of the brokers, which did not reply: defaults are used.")
    else:
        unread.append("Settings that differ between brokers: all have those of the controller.")
    if cluster.faults is None:
        unread.append("Faults, because no host agent replies.")
    links, requests = _faults(cluster.faults or [])
    if requests:
        unread.append(f"Request faults: {requests}.")
    return LiveState(
        read_at_us=cluster.read_at_us,
        peers=tuple(map(_peer, cluster.peers)),
        zab_leader=cluster.zab["leader_id"],
        brokers=tuple(map(_broker, cluster.brokers)),
        controller=cluster.controller.broker_id,
        ensemble_keys=ensemble_keys,
        broker_keys=keys,
        topics=tuple(_topic(each) for each in cluster.topics if not each.deleting),
        faults=tuple(links),
        unread=tuple(unread),
    )


def _faults(views: Sequence[FaultView]) -> tuple[list[LinkFault], int]:
    """Return the link faults, and the number of request faults."""
    held = [each.root for each in views]
    links = [
        LinkFault(each.source, each.target, each.kind, each.delay_ms, each.both_ways, each.bytes_per_s)
        for each in held
        if isinstance(each, HeldFault)
    ]
    return links, len(held) - len(links)


def _peer(peer: Peer) -> LiveNode:
    return LiveNode(peer.id, peer.process, peer.observer)


def _broker(broker: Broker) -> LiveNode:
    return LiveNode(broker.id, broker.process, registered=broker.registered)


def _topic(topic: Topic) -> LiveTopic:
    partitions = tuple(
        LivePartition(
            each.partition, tuple(each.replicas), each.leader, tuple(each.isr),
            {int(broker): end for broker, end in each.log_end_offsets.items()},
        )
        for each in topic.partitions
    )  # fmt: skip
    return LiveTopic(topic.name, topic.config, partitions)
