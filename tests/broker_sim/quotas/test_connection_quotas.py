"""A broker's limits for the number and rate of connections (KIP-308, KIP-612; SocketServer.ConnectionQuotas)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim import broker_world
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.configs.broker_config import config_from
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.quotas.connection_quotas import (
    ConnectionLimits,
    ConnectionQuotas,
    ConnectionThrottled,
    ListenerLimits,
    TooManyConnections,
)
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.simulation.engine.scheduler import Scheduler

INNER, OUTER = "INNER", "OUTER"


class Acceptor:
    """Two simulated listeners. `log` has, for each connection, the time in ms when it was accepted, or why it was
    rejected.
    """

    def __init__(self, limits: ConnectionLimits, listeners: tuple[str, ...] = (INNER, OUTER)) -> None:
        self.scheduler = Scheduler()
        self.runtime = SimRuntime(self.scheduler, Random(0))
        self.quotas = ConnectionQuotas(self.runtime, 11, 1, protected=INNER)
        self.quotas.configure(limits)
        self.evicted: list[str] = []
        self.inside: dict[str, list[str]] = {}
        for name in listeners:
            self.inside[name] = []
            self.quotas.add_listener(name, lambda name=name: self.evict(name))  # type: ignore[misc]
        self.log: list[tuple[str, Any]] = []

    def evict(self, listener: str) -> str | None:
        if not self.inside[listener]:
            return None
        self.evicted.append(self.inside[listener].pop(0))
        return self.evicted[-1]

    @property
    def now_ms(self) -> int:
        return self.scheduler.now_us // 1000

    def wait(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)

    def connect(self, address: str, listener: str = OUTER, count: int = 1) -> None:
        """Open `count` connections now, one after the other."""

        async def admit() -> None:
            for _ in range(count):
                try:
                    await self.quotas.admit(listener, address)
                    self.inside[listener].append(address)
                    self.log.append((address, self.now_ms))
                except ConnectionThrottled as throttled:
                    self.log.append((address, f"closed after {throttled.throttle_ms}"))
                except TooManyConnections:
                    self.log.append((address, "closed"))

        self.runtime.spawn(admit(), "accept")
        self.wait(0)

    def close(self, address: str, listener: str = OUTER) -> None:
        self.inside[listener].remove(address)
        self.quotas.release(listener, address)
        self.wait(0)


def test_all_connections_are_accepted_without_limits() -> None:
    acceptor = Acceptor(ConnectionLimits())
    acceptor.connect("a", count=1_000)
    assert [when for _, when in acceptor.log] == [0] * 1_000


def test_connections_per_ip_address_are_limited() -> None:
    acceptor = Acceptor(ConnectionLimits(per_address=2, overrides={"b": 1}))
    for address in ("a", "b", "a", "b", "a"):
        acceptor.connect(address)
    assert acceptor.log == [("a", 0), ("b", 0), ("a", 0), ("b", "closed"), ("a", "closed")]
    acceptor.close("a")
    acceptor.connect("a")
    assert acceptor.log[-1] == ("a", 0)


def test_full_listener_accepts_a_connection_after_one_closes() -> None:
    acceptor = Acceptor(ConnectionLimits(listeners={OUTER: ListenerLimits(max_connections=1)}))
    acceptor.connect("a")
    acceptor.connect("b")
    acceptor.connect("c", INNER)
    acceptor.wait(5_000)
    assert acceptor.log == [("a", 0), ("c", 0)]
    acceptor.close("a")
    assert acceptor.log[-1] == ("b", 5_000)


def test_full_broker_closes_an_idle_client_to_admit_a_broker() -> None:
    acceptor = Acceptor(ConnectionLimits(max_connections=2))
    for address in ("a", "b", "c"):
        acceptor.connect(address)
    assert acceptor.log == [("a", 0), ("b", 0)] and not acceptor.evicted
    acceptor.connect("broker", INNER)
    assert acceptor.log[-1] == ("broker", 0) and acceptor.evicted == ["a"]


def test_single_listener_gives_broker_connections_no_priority() -> None:
    acceptor = Acceptor(ConnectionLimits(max_connections=1), listeners=(INNER,))
    acceptor.connect("a", INNER)
    acceptor.connect("broker", INNER)
    assert acceptor.log == [("a", 0)] and not acceptor.evicted


def test_connections_are_closed_or_accepted_as_the_limit_changes() -> None:
    acceptor = Acceptor(ConnectionLimits())
    acceptor.connect("a", count=2)
    acceptor.connect("b")
    acceptor.quotas.configure(ConnectionLimits(max_connections=1))
    assert acceptor.evicted == ["a", "a"]
    acceptor.connect("c")
    assert ("c", 0) not in acceptor.log
    acceptor.quotas.configure(ConnectionLimits(max_connections=2))
    acceptor.wait(0)
    assert acceptor.log[-1] == ("c", 0)


def test_new_connections_wait_for_the_brokers_rate_limit() -> None:
    # There are eleven windows of a second, so a burst of ten seconds' worth is accepted at once. Each further
    # connection is delayed by at most one window.
    acceptor = Acceptor(ConnectionLimits(creations_per_second=2))
    acceptor.connect("a", count=22)
    acceptor.wait(30_000)
    moments = [when for _, when in acceptor.log]
    assert moments[:20] == [0] * 20 and moments[20] == 500
    assert 1_000 <= moments[21] <= 1_500


def test_listener_rate_limit_is_separate_from_the_broker_limit() -> None:
    limits = ConnectionLimits(creations_per_second=1, listeners={INNER: ListenerLimits(), OUTER: ListenerLimits()})
    acceptor = Acceptor(limits)
    acceptor.connect("broker", INNER, count=15)
    assert [when for _, when in acceptor.log] == [0] * 15
    acceptor.connect("a", count=11)
    assert len(acceptor.log) == 25, "the broker's rate limits the other listener"
    acceptor = Acceptor(ConnectionLimits(listeners={OUTER: ListenerLimits(creations_per_second=1)}))
    acceptor.connect("a", count=11)
    assert len(acceptor.log) == 10


def test_connection_over_its_ip_rate_is_closed_after_a_delay() -> None:
    acceptor = Acceptor(ConnectionLimits(creations_per_second=3))
    acceptor.quotas.limit_address("a", 1)
    acceptor.connect("a", count=30)
    assert acceptor.log == [("a", 0)] * 10 + [("a", "closed after 1000")] * 20
    acceptor.connect("b", count=20)
    assert acceptor.log[-1] == ("b", 0), "refused connections do not count for the broker's rate"


def test_ip_address_without_its_own_rate_uses_the_default() -> None:
    acceptor = Acceptor(ConnectionLimits())
    acceptor.quotas.limit_address(None, 0)
    acceptor.quotas.limit_address("a", 5)
    acceptor.connect("a")
    acceptor.connect("b")
    assert acceptor.log == [("a", 0), ("b", "closed after 1000")]
    acceptor.quotas.limit_address(None, None)
    acceptor.connect("b")
    assert acceptor.log[-1] == ("b", 0)


# ---- configuration ----------------------------------------------------------------------------------------------

BASE = {"zookeeper.connect": "z:1", "broker.id": "1"}


@pytest.mark.parametrize(
    ("keys", "expected_text"),
    [
        ({"max.connections.per.ip.overrides": "localhost"}, "localhost is not host:number"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        ({"listener.name.plaintext.max.connections": "x"}, "Not a number of type INT"),
    ],
)
def test_invalid_connection_limits_are_rejected(keys: dict[str, str], expected_text: str) -> None:
    with pytest.raises(ConfigError, match=expected_text):
        config_from({**BASE, **keys})


def test_listener_limits_override_the_brokers_limits() -> None:
    keys = {
        "max.connections": "9", "max.connections.per.ip": "7", "max.connections.per.ip.overrides": "10.0.0.1:3,h:4",
        "listener.name.plaintext.max.connections": "5", "max.connection.creation.rate": "20",
    }  # fmt: skip
    cluster = broker_world.Cluster(1, **{key.replace(".", "_"): value for key, value in keys.items()})
    cluster.nodes[1].more_ports = {"resolve": {"10.0.0.1": "10.0.0.1"}.get}
    cluster.start()
    limits = cluster.nodes[1].broker.connections._limits
    assert limits == ConnectionLimits(9, 20, 7, {"10.0.0.1": 3}, {"PLAINTEXT": ListenerLimits(5, 20)})
    cluster.stop_all()


def test_connection_limits_change_at_run_time() -> None:
    cluster = broker_world.Cluster(1)
    cluster.start()
    connections = cluster.nodes[1].broker.connections
    changes = {"max.connections": "3", "max.connections.per.ip.overrides": "10.0.0.1:2"}
    cluster.run(cluster.client.alter_configs(4, "", changes))
    entries = [
        {"entity": [{"entity_type": "ip", "entity_name": name}],
         "ops": [{"key": "connection_creation_rate", "value": rate, "remove": False}]}
        for name, rate in (("10.0.0.2", 4.0), (None, 6.0))
    ]  # fmt: skip
    message = request(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False)
    answer = cluster.on(cluster.nodes[1], cluster.nodes[1].broker.handle(message))
    assert {row.error_code for row in answer.entries} == {ErrorCode.none}
    cluster.wait(500)
    assert (connections._limits.max_connections, connections._limits.overrides) == (3, {"10.0.0.1": 2})
    assert (connections._address_rates, connections._default_rate) == ({"10.0.0.2": 4}, 6)
    cluster.stop_all()


def test_listener_limits_change_at_run_time() -> None:
    own = "listener.name.plaintext."
    cluster = broker_world.Cluster(1, listener_name_plaintext_max_connections="5").start()
    connections = cluster.nodes[1].broker.connections

    def limits_after(entity: str, **changes: str | None) -> ListenerLimits:
        named = {own + key.replace("_", "."): value for key, value in changes.items()}
        cluster.run(cluster.client.alter_configs(4, entity, named))
        cluster.wait(500)
        return connections._limits.listeners["PLAINTEXT"]

    rate = connections._limits.creations_per_second
    assert limits_after("", max_connections="4") == ListenerLimits(4, rate)
    assert limits_after("1", max_connections="3", max_connection_creation_rate="7") == ListenerLimits(3, 7)
    assert limits_after("1", max_connections=None) == ListenerLimits(4, 7)
    assert limits_after("", max_connections=None) == ListenerLimits(5, 7)
    refused = cluster.refused(cluster.client.alter_configs(4, "1", {f"{own}max.connections": "x"}))
    assert refused is not None and refused[0] is ErrorCode.invalid_request
    cluster.stop_all()


def test_connection_quota_of_an_unresolvable_host_is_rejected() -> None:
    cluster = broker_world.Cluster(1)
    cluster.nodes[1].more_ports = {"resolve": {"known": "10.0.0.7"}.get}
    cluster.start()
    ops = [{"key": "connection_creation_rate", "value": 2.0, "remove": False}]
    entries = [{"entity": [{"entity_type": "ip", "entity_name": name}], "ops": ops} for name in ("known", "nobody")]
    message = request(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False)
    known, nobody = cluster.on(cluster.nodes[1], cluster.nodes[1].broker.handle(message)).entries
    assert known.error_code == ErrorCode.none
    assert (nobody.error_code, nobody.error_message) == (
        ErrorCode.invalid_request,
        "nobody is not a valid IP or resolvable host.",
    )
    cluster.wait(500)
    assert cluster.nodes[1].broker.connections._address_rates == {"10.0.0.7": 2}
    cluster.stop_all()
