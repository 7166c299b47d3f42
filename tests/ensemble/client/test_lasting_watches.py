"""The client's persistent watches and rarely used requests, with real server code, on virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ensemble.client.client_fakes import FakeConnection, FakeEnsemble
from tests.ensemble.tree.tree_driver import Ensemble
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import Create, GetChildren, GetData, Receiver, WatchEvent
from zabka.ensemble.client.watches import Watches, WatchKind
from zabka.ensemble.errors import ErrorCode, NoNode, NoWatcher, QuotaExceeded, Unimplemented, ZooKeeperError
from zabka.ensemble.records import (
    ClientMessage,
    EventType,
    OpCode,
    Reply,
    Request,
    SetWatches,
    SetWatches2,
    WatcherEvent,
    WatcherType,
)
from zabka.ensemble.tree_rules import TreeRules

CREATED, DELETED, DATA = EventType.CREATED, EventType.DELETED, EventType.DATA_CHANGED
CHILDREN, NONE = EventType.CHILDREN_CHANGED, EventType.NONE


def paths(events: list[WatchEvent]) -> list[tuple[EventType, str]]:
    return [(event.type, event.path) for event in events]


class ServedConnection(FakeConnection):
    """Connection to the server code. It delivers the server's replies after a short delay."""

    def __init__(self, world: Served, host: str, receiver: Receiver) -> None:
        super().__init__(world, host, receiver)
        self.number = world.ensemble.dial()


class Served(FakeEnsemble):
    """Connector to real server code, which replies to every request."""

    def __init__(self, rules: TreeRules) -> None:
        super().__init__()
        self.ensemble = Ensemble(tree=rules)

    def connect(self, host: str, receiver: Receiver) -> FakeConnection:
        connection = ServedConnection(self, host, receiver)
        self.connections.append(connection)
        connection._later(receiver.on_connected)
        return connection

    def on_frame(self, connection: FakeConnection, message: ClientMessage) -> None:
        assert isinstance(connection, ServedConnection)
        if not connection.closed:
            self.ensemble.message(connection.number, message)
        for each in self.connections:
            assert isinstance(each, ServedConnection)
            for answer in self.ensemble.take(each.number):
                body = getattr(answer, "body", None)
                if isinstance(body, WatcherEvent):
                    each.event(EventType(body.type), body.path, answer.zxid)
                else:
                    each.deliver(answer)

    def cut(self, number: int = 0) -> None:
        """Break open connection `number`, counted from 0. Its client then reconnects by itself."""
        connection = [each for each in self.connections if not each.closed][number]
        assert isinstance(connection, ServedConnection)
        connection.drop()
        self.ensemble.hang_up(connection.number)

    def clients(self, *hosts: str) -> list[Client]:
        found = [self.client(each) for each in hosts or ("a:1", "a:1")]
        for each in found:
            self.run(each.start())
        return found


def served(rules: TreeRules | None = None) -> Served:
    return Served(rules or TreeRules())


def fails(world: FakeEnsemble, future: Any) -> type[ZooKeeperError]:
    async def outcome() -> type[ZooKeeperError]:
        try:
            await future
        except ZooKeeperError as failed:
            return type(failed)
        raise AssertionError("it did not fail")

    found: type[ZooKeeperError] = world.run(outcome())
    return found


def test_persistent_watch_is_notified_repeatedly() -> None:
    world = served()
    writer, watcher = world.clients()
    received: list[WatchEvent] = []
    world.run(watcher.add_watch("/a", received.append))
    for future in (writer.create("/a"), writer.set("/a", b"1"), writer.create("/a/b"), writer.set("/a/b", b"2")):
        world.run(future)
    world.advance(10)
    assert paths(received) == [(CREATED, "/a"), (DATA, "/a"), (CHILDREN, "/a")]


def test_recursive_watch_reports_descendants_but_no_child_events() -> None:
    world = served()
    writer, watcher = world.clients("a:1", "a:1/app")
    received: list[WatchEvent] = []
    children: list[WatchEvent] = []
    world.run(writer.create("/app"))
    world.run(watcher.add_watch("/", received.append, recursive=True))
    world.run(watcher.get_children("/", children.append))
    for future in (
        writer.create("/app/x"),
        writer.create("/apple"),
        writer.set("/app/x", b""),
        writer.delete("/app/x"),
    ):
        world.run(future)
    world.advance(10)
    assert paths(received) == [(CREATED, "/x"), (DATA, "/x"), (DELETED, "/x")], "paths without the chroot"
    assert paths(children) == [(CHILDREN, "/")], "notified because of the other watch"


def test_persistent_watches_are_rearmed_after_a_reconnect() -> None:
    world = served()
    writer, watcher = world.clients()
    received: list[WatchEvent] = []
    world.run(writer.create("/a"))
    world.run(watcher.add_watch("/a", received.append))
    world.run(watcher.add_watch("/", received.append, recursive=True))
    world.run(watcher.get("/a", received.append))
    world.cut(1)
    world.run(writer.set("/a", b"missed by the lasting ones"))
    world.advance(100)
    assert paths(received) == [(DATA, "/a")], "the one-shot watch gets the missed event"
    world.run(writer.set("/a", b"heard"))
    world.run(writer.create("/b"))
    world.advance(10)
    assert paths(received[1:]) == [(DATA, "/a"), (CREATED, "/b")], "a watcher gets each event once"
    sent = [m for m in world.last.sent if isinstance(m, Request) and m.op == OpCode.SET_WATCHES2]
    assert len(sent) == 1 and isinstance(sent[0].body, SetWatches2)
    assert (sent[0].body.persistent_watches, sent[0].body.persistent_recursive_watches) == (["/a"], ["/"])


def test_rejected_watch_is_not_rearmed() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.scripted[OpCode.ADD_WATCH] = lambda connection, request: Reply(request.xid, 1, ErrorCode.UNIMPLEMENTED)
    assert fails(world, client.add_watch("/a", lambda event: None)) is Unimplemented
    world.last.drop()
    world.advance(100)
    assert not [m for m in world.last.sent if isinstance(m, Request) and m.op == OpCode.SET_WATCHES2]


def test_removed_watch_is_notified_of_removal_and_nothing_later() -> None:
    world = served()
    writer, watcher = world.clients()
    received: list[WatchEvent] = []
    world.run(writer.create("/a"))
    for future in (
        watcher.get("/a", received.append), watcher.get_children("/a", received.append),
        watcher.add_watch("/a", received.append),
        watcher.add_watch("/a", received.append, recursive=True),
    ):  # fmt: skip
        world.run(future)
    world.run(watcher.remove_watches("/a", kind=WatcherType.DATA))
    assert paths(received) == [(EventType.DATA_WATCH_REMOVED, "/a")]
    world.run(watcher.remove_watches("/a"))
    assert paths(received[1:]) == [(EventType.CHILD_WATCH_REMOVED, "/a"), (EventType.PERSISTENT_WATCH_REMOVED, "/a")]
    assert len(world.ensemble.services[0].watches) == 0
    assert fails(world, watcher.remove_watches("/a")) is NoWatcher
    world.run(writer.set("/a", b""))
    world.advance(10)
    assert len(received) == 3


def test_removing_one_of_two_watchers_keeps_the_watch_at_server() -> None:
    world = served()
    writer, watcher = world.clients()
    one: list[WatchEvent] = []
    two: list[WatchEvent] = []
    first, second = one.append, two.append
    world.run(watcher.add_watch("/a", first))
    world.run(watcher.add_watch("/a", second))
    assert fails(world, watcher.remove_watches("/a", lambda event: None)) is NoWatcher
    world.run(watcher.remove_watches("/a", first))
    world.run(writer.create("/a"))
    world.advance(10)
    assert paths(one) == [(EventType.PERSISTENT_WATCH_REMOVED, "/a")] and paths(two) == [(CREATED, "/a")]
    world.run(watcher.remove_watches("/a", second))
    assert len(world.ensemble.services[0].watches) == 0


@pytest.mark.parametrize("connected", [True, False], ids=["under way", "waiting for a connection"])
@pytest.mark.parametrize("leave", [Client.get, Client.exists, Client.get_children, Client.add_watch])
def test_watch_added_while_another_is_removed_is_notified(leave: Any, connected: bool) -> None:
    world = served()
    writer, watcher = world.clients()
    one: list[WatchEvent] = []
    two: list[WatchEvent] = []
    first, second = one.append, two.append
    world.run(writer.create("/a"))
    world.run(leave(watcher, "/a", first))
    if not connected:
        world.cut(1)
        world.advance(2)
    asked, removed = leave(watcher, "/a", second), watcher.remove_watches("/a", first)
    world.run(asked)
    world.run(removed)
    changes = (writer.create("/a/b"), writer.set("/a", b"x"))
    for change in changes:
        world.run(change)
    world.advance(10)
    assert len(one) == 1, "it got the removal event only"
    assert {event.type for event in two} and {event.type for event in two} <= {DATA, CHILDREN}


def test_session_expiry_notifies_persistent_watchers() -> None:
    world = served()
    (client,) = world.clients("a:1")
    received: list[WatchEvent] = []
    world.run(client.add_watch("/a", received.append))
    client._session.expire()
    assert paths(received) == [(NONE, "/a")]


def test_watches_are_rearmed_in_requests_under_the_packet_limit() -> None:
    watches = Watches()
    paths = [f"/watched/{'x' * 200}{i:05}" for i in range(3_000)]
    for i, path in enumerate(paths):
        kinds = (WatchKind.DATA, WatchKind.PERSISTENT, WatchKind.RECURSIVE)
        watches.add(kinds[i % 3], path, print, exists=True)
    batches = watches.rearm(7)
    assert len(batches) > 4 and max(len(batch.encode()) for batch in batches) < 140_000
    assert isinstance(batches[0], SetWatches), "servers before 3.6 know no other, and most have nothing else"
    lasting = [batch for batch in batches if isinstance(batch, SetWatches2)]
    assert [p for batch in lasting for p in batch.persistent_watches] == paths[1::3]
    assert [p for batch in lasting for p in batch.persistent_recursive_watches] == paths[2::3]
    assert [p for batch in batches for p in batch.data_watches] == paths[::3]


def test_multi_read_returns_all_results() -> None:
    world = served()
    (client,) = world.clients("a:1")
    world.run(client.create("/a", b"data"))
    world.run(client.create("/a/c"))
    world.run(client.create("/a/b"))
    data, children, missing = world.run(client.multi_read([GetData("/a"), GetChildren("/a"), GetData("/no")]))
    assert (data.error, data.data, data.stat.num_children) == (ErrorCode.OK, b"data", 2)
    assert children.children == ("b", "c") and missing == (ErrorCode.NO_NODE, b"", None, ())


def test_containers_and_ttl_nodes_can_be_created() -> None:
    world = served(TreeRules(extended_types=True))
    (client,) = world.clients("a:1")
    path, stat = world.run(client.create_container("/c"))
    assert path == "/c" and stat.ephemeral_owner == 0
    path, _ = world.run(client.create_with_ttl("/t", b"x", ttl_ms=5_000, sequential=True))
    assert path == "/t0000000001"
    assert sorted(world.ensemble.services[0].tree.lapsing) == ["/c", "/t0000000001"]


def test_ttl_nodes_require_servers_that_support_them() -> None:
    world = served()
    (client,) = world.clients("a:1")
    assert fails(world, client.create_with_ttl("/t", ttl_ms=1)) is Unimplemented


def test_client_reads_its_ephemerals_and_counts_descendants() -> None:
    world = served()
    writer, client = world.clients("a:1", "a:1/app")
    world.run(writer.create("/app"))
    for path in ("/e2", "/e1"):
        world.run(client.create(path, ephemeral=True))
    world.run(writer.create("/apple", ephemeral=True))
    world.run(client.create("/plain"))
    assert world.run(client.get_ephemerals()) == ["/e1", "/e2"]
    assert world.run(client.get_ephemerals("/e2")) == ["/e2"]
    assert world.run(client.get_all_children_number("/")) == 3
    assert fails(world, client.get_all_children_number("/no")) is NoNode
    world.run(client.add_auth("digest", b"ann:secret"))
    assert ("digest", "ann") in world.run(client.who_am_i())


def test_exceeded_hard_quota_raises_its_own_error() -> None:
    world = served(TreeRules(enforce_quota=True))
    (client,) = world.clients("a:1")
    for path, data in (
        ("/q", b""), ("/zookeeper/quota/q", b""), ("/zookeeper/quota/q/zookeeper_stats", b""),
        ("/zookeeper/quota/q/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=1"),
    ):  # fmt: skip
        world.run(client.create(path, data))
    assert fails(world, client.create("/q/x")) is QuotaExceeded
    assert world.run(client.multi([Create("/q/x", b"")]))[0].error is ErrorCode.QUOTA_EXCEEDED
