"""What-if forks: a seed is played again, with the same history up to a moment, and a change from then on.

A fork is played from the start.  Because one seed gives one history, it equals the run up to the moment, byte for byte.
The change is a scheduled call that is the first one of its time: the events before that time are the same in both.

| change | effect |
|---|---|
| a fault is left out | it is drawn, and not injected; its id stays unused, so that later faults keep theirs |
| a node is killed or paused | it is started or resumed after `lasts_ms`, unless another fault has hit it by then; the \
run also starts it when its faults end |
| a setting is different | an operator sets the brokers' dynamic configuration, as kafka-configs.sh does |
| a setting is different from the start | the world is built with it; the faults are those of the run |
| another future | from then on, all random numbers of the world are other ones |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
from zabka.simulation.settings import BadSetting, is_setting_of_the_world

REQUESTER = "what-if"
"""Requester of the fork's own faults and settings, as the journal names it."""
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


class Forking:
    """Applies a change to a world at the moment of the change, and records each node's state just before it."""

    def __init__(self, world: ServingWorld, change: Change, begin_future: Callable[[], None]) -> None:
        self.refused = ""
        """The reason for which the brokers rejected the settings, or an empty string."""
        self.nodes: dict[str, str] = {}
        """State of each server at the moment of the fork: running, paused or down.

        It is empty if the run did not reach the moment.
        """
        self._world = world
        self._change = change
        self._begin_future = begin_future
        self._faults = 0
        self._held: dict[str, None] = {}
        """Nodes that are down or paused because of this change alone: no other fault or start has met them since."""
        world.record.listeners.append(self._see)
        world.left_out = frozenset(change.left_out)
        world.scheduler.at(change.at_us, self._begin)

    def _begin(self) -> None:
        for machine in self._world.servers():
            self.nodes[machine.name] = PAUSED if machine.is_paused else DOWN if machine.process is None else RUNNING
        for name in self._change.killed:
            self._kill(self._server(name))
        for name in self._change.paused:
            self._pause(self._server(name))
        if self._change.settings and isinstance(self._world, ClusterWorld):
            self._world.run_kafka_client(REQUESTER, self._configure)
        self._begin_future()

    def _see(self, entry: Entry) -> None:
        """Note faults and starts of the nodes that this change holds: the fault that is the last one ends by itself."""
        event = entry.event
        if isinstance(event, NodeStarted):
            self._held.pop(entry.node, None)
        elif isinstance(event, FaultInjected) and event.requester != REQUESTER and event.kind in _STOPS:
            self._held.pop(event.target, None)

    def _server(self, name: str) -> ServerMachine:
        return next(machine for machine in self._world.servers() if machine.name == name)

    def _announce(self, kind: str, name: str) -> None:
        # Another kind of id than the world's own, so that the faults that follow have the same ids as in the run.
        self._faults += 1
        self._world.emit(FaultInjected(f"w{self._faults}", kind, name, name, both_ways=False, requester=REQUESTER))

    def _kill(self, machine: ServerMachine) -> None:
        if machine.process is not None:
            self._announce("crash", machine.name)
            machine.kill()
            self._held[machine.name] = None
            self._world.scheduler.after(self._change.lasts_ms * 1000, lambda: self._start(machine))

    def _start(self, machine: ServerMachine) -> None:
        """Start a killed node, unless another fault holds it down now."""
        if machine.name in self._held:
            machine.switch_on()

    def _pause(self, machine: ServerMachine) -> None:
        if machine.process is not None and not machine.is_paused:
            process = machine.process

            def resume() -> None:
                # A process that was killed meanwhile is not the paused one. Another fault can have paused it, too.
                if machine.process is process and machine.name in self._held:
                    machine.resume()

            self._announce("pause", machine.name)
            machine.pause()
            self._held[machine.name] = None
            self._world.scheduler.after(self._change.lasts_ms * 1000, resume)

    async def _configure(self, client: AdminClient, runtime: Runtime) -> None:
        """Set the configuration of all brokers; retry until a broker accepts or rejects it."""
        while True:
            try:
                await client.alter_configs(BROKER_RESOURCE, "", dict(self._change.settings))
            except KafkaRequestFailed as failure:
                if failure.error in _REJECTIONS:
                    self.refused = failure.message
                    return
                await runtime.sleep(RETRY_MS)
            except KafkaUnavailable:
                await runtime.sleep(RETRY_MS)
            else:
                return
