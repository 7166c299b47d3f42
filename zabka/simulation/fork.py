"""What-if forks: a seed is played again, with the same history up to a moment, and a change from then on.

A fork is played from the start.  Because one seed gives one history, it equals the run up to the moment, byte for byte.
The change is a scheduled call that is the first one of its time: the events before that time are the same in both.

A fork can be forked again: it has a list of changes, in the order of their times. It equals the fork without the last
change up to the moment of that change.

| change | effect |
|---|---|
| a fault is left out | it is drawn, and not injected; its id stays unused, so that later faults keep theirs |
| a node is killed or paused | it is started or resumed after `lasts_ms`, unless another fault has hit it by then; the \
run also starts it when its faults end |
| a setting is different | an operator sets the brokers' dynamic configuration, as kafka-configs.sh does |
| a setting is different from the start | the world is built with it; the faults are those of the run |
| another future | from then on, all random numbers of the world are other ones, and no fault is left out |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

import msgspec
from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.broker_keys import KAFKA_KEYS
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.ensemble.ports import Runtime
from zabka.journal.events import Entry, FaultInjected, NodeStarted
from zabka.kafka.client.admin_client import BROKER_RESOURCE, AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.simulation.cluster.cluster_world import ClusterWorld
from zabka.simulation.cluster.ensemble_world import ServingWorld
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.simulation.settings import BadSetting, WorldSettings, is_setting_of_the_world, world_settings

REQUESTER = "what-if"
"""Requester of the fork's own faults and settings, as the journal names it."""
START = "start"
"""Value of `--at` for settings that a fork has from the start on."""
RETRY_MS = 200
FROM_START = "Change it from the start"
_REJECTIONS = (ErrorCode.invalid_request, ErrorCode.invalid_config, ErrorCode.policy_violation)
"""Errors with which a broker rejects a configuration permanently."""
_STOPS = ("crash", "power_loss", "stop", "pause")
"""Kinds of faults after which a node is down or paused."""
RUNNING, PAUSED, DOWN = "running", "paused", "down"


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a fork differs from the run, from the virtual time `at_us` on.  By default, it does not differ."""

    at_us: int
    left_out: tuple[str, ...] = ()
    """Ids of the faults that are left out, such as f3."""
    killed: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    lasts_ms: int = 10_000
    """Time after which killed nodes are started, and paused nodes resumed."""
    settings: Mapping[str, str] = {}
    """Dynamic configuration of all brokers."""
    started_with: Mapping[str, str] = {}
    """Settings of the whole fork, from the start on."""
    future: int | None = None
    """Seed for new random numbers after the change. None keeps the random numbers of the original run."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed, so that the fork equals the original run."""
        return self == Change(self.at_us, lasts_ms=self.lasts_ms)


def check_setting(key: str, value: str) -> None:
    """Raise BadSetting, with the reason, unless Kafka can change this key in all running brokers at once."""
    if is_setting_of_the_world(key):
        raise BadSetting(
            f"{key} cannot change at a moment: the world is built with it, so another value would change what happened "
            f"before. {FROM_START}"
        )
    known = KAFKA_KEYS.get(key)
    if known is None:
        raise BadSetting(f"{key} is no key of Kafka's brokers")
    if not known.is_dynamic:
        raise BadSetting(f"{key} cannot change at a moment: a broker reads it only when it starts. {FROM_START}")
    if known.is_per_broker:
        raise BadSetting(f"{key} cannot change at a moment: Kafka sets it for each broker, not for all. {FROM_START}")
    try:
        known.definition.parse(value)
    except ConfigError as reason:
        raise BadSetting(str(reason)) from None


def options(changes: Sequence[Change]) -> list[str]:
    """Return the options of `zabka what-if` that make these changes."""
    found: list[str] = []
    for change in changes:
        at = START if change.started_with else f"{change.at_us / 1_000_000:.6f}s"
        found += ["--at", at, *options_after(change)]
    return found


def options_after(change: Change) -> list[str]:
    """Return the options of `zabka what-if` that make a change, without its moment."""
    named = {"--without": change.left_out, "--kill": change.killed, "--pause": change.paused}
    found = [argument for option, names in named.items() for name in names for argument in (option, name)]
    found += ["--for", f"{change.lasts_ms / 1000:g}s"] if change.killed or change.paused else []
    settings = {**change.settings, **change.started_with}
    return found + [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]


def built_with(settings: WorldSettings | None, changes: Sequence[Change]) -> WorldSettings | None:
    """Return the settings with which a fork's world is built, where `settings` are those of the run."""
    keys = {key: value for change in changes for key, value in change.started_with.items()}
    return world_settings(f"{key}={value}" for key, value in keys.items()) if keys else settings


def settings_after(settings: WorldSettings | None, changes: Sequence[Change]) -> WorldSettings:
    """Return the settings of a fork after its last change, where `settings` are those of the run."""
    built = built_with(settings, changes) or WorldSettings()
    keys = {key: value for change in changes for key, value in change.settings.items()}
    return msgspec.structs.replace(built, broker_keys={**built.broker_keys, **keys})


class Forking:
    """Applies changes to a world, each at its moment, and records each node's state just before the last one.

    The changes are in the order of their times.  Raises ValueError if they are not.
    """

    def __init__(self, world: ServingWorld, changes: Sequence[Change], begin_future: Callable[[int], None]) -> None:
        for earlier, later in pairwise(changes):
            if later.at_us < earlier.at_us:
                raise ValueError(f"the change at {later.at_us} us lies before the previous one, at {earlier.at_us} us")
        self.refused = ""
        """The reason for which the brokers rejected the settings, or an empty string."""
        self.nodes: dict[str, str] = {}
        """State of each server just before the last change: running, paused or down.

        It is empty if the run did not reach the moment.
        """
        self._world = world
        self._begin_future = begin_future
        self._faults = 0
        self._held: dict[str, str] = {}
        """Nodes that are down or paused because of a change alone, with the id of its fault.

        No other fault or start has met these nodes since.
        """
        world.record.listeners.append(self._see)
        world.left_out = frozenset(name for change in changes for name in change.left_out)
        for change in changes:
            world.scheduler.at(change.at_us, partial(self._begin, change, is_last=change is changes[-1]))

    def _begin(self, change: Change, *, is_last: bool) -> None:
        if is_last:
            for machine in self._world.servers():
                self.nodes[machine.name] = PAUSED if machine.is_paused else DOWN if machine.process is None else RUNNING
        for name in change.killed:
            self._kill(self._server(name), change.lasts_ms)
        for name in change.paused:
            self._pause(self._server(name), change.lasts_ms)
        if change.settings and isinstance(self._world, ClusterWorld):
            self._world.run_kafka_client(REQUESTER, partial(self._configure, dict(change.settings)))
        if change.future is not None:
            # The future draws other faults, which only share their ids with those of the run.
            self._world.left_out = frozenset()
            self._begin_future(change.future)

    def _see(self, entry: Entry) -> None:
        """Note faults and starts of the nodes that a change holds: the fault that is the last one ends by itself."""
        event = entry.event
        if isinstance(event, NodeStarted):
            self._held.pop(entry.node, None)
        elif isinstance(event, FaultInjected) and event.requester != REQUESTER and event.kind in _STOPS:
            self._held.pop(event.target, None)

    def _server(self, name: str) -> ServerMachine:
        return next(machine for machine in self._world.servers() if machine.name == name)

    def _announce(self, kind: str, name: str) -> str:
        # Another kind of id than the world's own, so that the faults that follow have the same ids as in the run.
        self._faults += 1
        fault_id = f"w{self._faults}"
        self._world.emit(FaultInjected(fault_id, kind, name, name, both_ways=False, requester=REQUESTER))
        return fault_id

    def _kill(self, machine: ServerMachine, lasts_ms: int) -> None:
        if machine.process is not None:
            fault_id = self._announce("crash", machine.name)
            machine.kill()
            self._held[machine.name] = fault_id
            self._world.scheduler.after(lasts_ms * 1000, lambda: self._start(machine, fault_id))

    def _start(self, machine: ServerMachine, fault_id: str) -> None:
        """Start a killed node, unless another fault holds it down now."""
        if self._held.get(machine.name) == fault_id:
            machine.switch_on()

    def _pause(self, machine: ServerMachine, lasts_ms: int) -> None:
        if machine.process is not None and not machine.is_paused:
            process = machine.process

            def resume() -> None:
                # A process that was killed meanwhile is not the paused one. Another fault can have paused it, too.
                if machine.process is process and self._held.get(machine.name) == fault_id:
                    machine.resume()

            fault_id = self._announce("pause", machine.name)
            machine.pause()
            self._held[machine.name] = fault_id
            self._world.scheduler.after(lasts_ms * 1000, resume)

    async def _configure(self, settings: dict[str, str], client: AdminClient, runtime: Runtime) -> None:
        """Set the configuration of all brokers; retry until a broker accepts or rejects it."""
        while True:
            try:
                await client.alter_configs(BROKER_RESOURCE, "", settings)
            except KafkaRequestFailed as failure:
                if failure.error in _REJECTIONS:
                    self.refused = failure.message
                    return
                await runtime.sleep(RETRY_MS)
            except KafkaUnavailable:
                await runtime.sleep(RETRY_MS)
            else:
                return
