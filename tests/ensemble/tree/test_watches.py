"""Watches that each operation fires, their recipients, and their order."""

import pytest

from tests.ensemble.tree.tree_driver import Ensemble, children, create, delete, exists, get, multi, set_acl, set_data
from zabka.ensemble.records import ACL, AuthPacket, EventType, OpCode, Reply, SetWatches, WatcherEvent

CREATED, DELETED = EventType.CREATED, EventType.DELETED
DATA, CHILDREN = EventType.DATA_CHANGED, EventType.CHILDREN_CHANGED


def fired(ensemble, connection):
    """Return the watch events among the messages since the previous call."""
    messages = ensemble.take(connection)
    return [(EventType(m.body.type), m.body.path) for m in messages if isinstance(m.body, WatcherEvent)]


def watching(*watches):
    """Return an ensemble with /p and /p/a, a writer, and a watcher that set these watches."""
    ensemble = Ensemble()
    writer, watcher = ensemble.connect(), ensemble.connect()
    ensemble.ask(writer, create("/p"))
    ensemble.ask(writer, create("/p/a"))
    for watch in watches:
        ensemble.ask(watcher, watch)
    ensemble.take(watcher)
    return ensemble, writer, watcher


DATA_WATCH, CHILD_WATCH, EXISTS_WATCH = get("/p/a", True), children("/p/a", True), exists("/p/a", True)
TABLE = [
    (set_data("/p/a"), DATA_WATCH, [(DATA, "/p/a")]),
    (set_data("/p/a"), EXISTS_WATCH, [(DATA, "/p/a")]),
    (set_data("/p/a"), CHILD_WATCH, []),
    (delete("/p/a"), DATA_WATCH, [(DELETED, "/p/a")]),
    (delete("/p/a"), EXISTS_WATCH, [(DELETED, "/p/a")]),
    (delete("/p/a"), CHILD_WATCH, [(DELETED, "/p/a")]),
    (delete("/p/a"), children("/p", True), [(CHILDREN, "/p")]),
    (delete("/p/a"), get("/p", True), []),
    (create("/p/a/c"), CHILD_WATCH, [(CHILDREN, "/p/a")]),
    (create("/p/a/c"), DATA_WATCH, []),
    (create("/p/a/c"), children("/p", True), []),
    (create("/p/b"), exists("/p/b", True), [(CREATED, "/p/b")]),
    (create("/p/b"), get("/p/b", True), []),
    (create("/p/b"), children("/p/b", True), []),
    (create("/top"), children("/", True), [(CHILDREN, "/")]),
    (set_acl("/p/a", (ACL(31, "world", "anyone"),)), DATA_WATCH, []),
    (set_data("/p/a", b"", 9), DATA_WATCH, []),
    (multi(set_data("/p/a"), delete("/p/nope")), DATA_WATCH, []),
]


@pytest.mark.parametrize(("operation", "watch", "events"), TABLE)
def test_each_operation_fires_the_watches_that_zookeeper_fires(operation, watch, events):
    ensemble, writer, watcher = watching(watch)
    ensemble.send(writer, operation)
    assert fired(ensemble, watcher) == events
    left = watch[0] == OpCode.EXISTS or watch[1].path != "/p/b"  # other reads leave no watch on a missing node
    assert len(ensemble.services[0].watches) == (1 if left and not events else 0)


def test_one_time_watch_fires_once():
    ensemble, writer, watcher = watching(DATA_WATCH, EXISTS_WATCH)
    ensemble.ask(writer, set_data("/p/a"))
    ensemble.ask(writer, set_data("/p/a"))
    assert fired(ensemble, watcher) == [(DATA, "/p/a")], "data and exists watches of one connection are one"


def test_deletion_event_is_sent_once_and_before_the_parent_event():
    ensemble, writer, watcher = watching(children("/p", True), CHILD_WATCH, DATA_WATCH)
    ensemble.ask(writer, delete("/p/a"))
    assert fired(ensemble, watcher) == [(DELETED, "/p/a"), (CHILDREN, "/p")]


def test_multi_fires_watches_in_operation_order():
    ensemble, writer, watcher = watching(exists("/p/b", True), DATA_WATCH, get("/p", True), children("/p", True))
    ensemble.ask(writer, multi(set_data("/p"), create("/p/b"), set_data("/p/b"), delete("/p/a")))
    assert fired(ensemble, watcher) == [(DATA, "/p"), (CREATED, "/p/b"), (CHILDREN, "/p"), (DELETED, "/p/a")]


def test_connections_are_notified_in_the_order_of_their_watches():
    ensemble = Ensemble()
    connections = [ensemble.connect() for _ in range(5)]
    order = [connections[i] for i in (3, 0, 4, 1, 2)]
    for connection in order:
        ensemble.ask(connection, exists("/x", True))
        ensemble.take(connection)
    service = ensemble.services[0]
    assert [c for c, _ in service.watches.watchers_of("/x")] == order
    recipients = []
    ensemble.sent = _Recorder(recipients)
    ensemble.send(connections[0], create("/x"))
    assert recipients == [*order, connections[0]], "the events leave before the reply"


class _Recorder(dict):
    def __init__(self, recipients):
        self.recipients = recipients

    def __missing__(self, connection):
        self.recipients.append(connection)
        return []


def test_watch_event_precedes_the_reply_and_has_the_zxid():
    ensemble, writer, _ = watching()
    ensemble.ask(writer, get("/p/a", True))
    ensemble.take(writer)
    ensemble.send(writer, set_data("/p/a"))
    event, reply = ensemble.take(writer)
    assert (event.xid, event.zxid, event.body) == (-1, ensemble.zxid, WatcherEvent(DATA, 3, "/p/a"))
    assert isinstance(reply, Reply) and reply.zxid == ensemble.zxid


def test_watch_without_read_permission_is_not_notified():
    ensemble = Ensemble()
    writer, watcher = ensemble.connect(), ensemble.connect()
    ensemble.ask(writer, (OpCode.AUTH, AuthPacket(0, "digest", b"ann:secret")))
    mine = (ACL(31, "auth", ""),)
    ensemble.ask(watcher, exists("/private", True))
    ensemble.ask(writer, exists("/private", True))
    ensemble.take(writer), ensemble.take(watcher)
    assert ensemble.ask(writer, create("/private", acl=mine)).err == 0
    assert fired(ensemble, watcher) == []
    assert fired(ensemble, writer) == [(CREATED, "/private")]


def test_watches_of_a_closed_connection_are_removed():
    ensemble, writer, watcher = watching(DATA_WATCH, CHILD_WATCH, exists("/p/b", True))
    counts = ensemble.services[0].views.watch_counts()
    assert (counts.watches, counts.connections, counts.paths) == (3, 1, 2)
    ensemble.hang_up(watcher)
    assert len(ensemble.services[0].watches) == 0
    ensemble.ask(writer, delete("/p/a"))
    assert fired(ensemble, watcher) == []


def test_end_of_a_session_fires_the_watches_on_its_ephemerals():
    ensemble, writer, watcher = watching()
    ensemble.ask(writer, create("/p/e", b"", 1))
    ensemble.ask(watcher, exists("/p/e", True))
    ensemble.ask(watcher, children("/p", True))
    ensemble.take(watcher)
    ensemble.hang_up(writer)
    ensemble.now_ms += 9000
    ensemble.send(watcher, exists("/"))
    ensemble.advance(2000)
    assert fired(ensemble, watcher) == [(DELETED, "/p/e"), (CHILDREN, "/p")]


def set_watches(since, data=(), exist=(), child=()):
    return OpCode.SET_WATCHES, SetWatches(since, list(data), list(exist), list(child))


def test_set_watches_sends_missed_events_and_sets_other_watches():
    ensemble, writer, watcher = watching()
    ensemble.ask(writer, create("/p/same"))
    since = ensemble.zxid
    ensemble.ask(writer, create("/p/new"))
    ensemble.ask(writer, set_data("/p/a"))
    request = set_watches(since, ["/p/a", "/p/same", "/gone"], ["/p/new", "/p/never"], ["/p", "/p/same", "/gone-too"])
    ensemble.send(watcher, request, xid=-8)
    *events, reply = ensemble.take(watcher)
    assert [(e.body.type, e.body.path, e.zxid) for e in events] == [
        (DATA, "/p/a", -1), (DELETED, "/gone", -1), (CREATED, "/p/new", -1), (CHILDREN, "/p", -1),
        (DELETED, "/gone-too", -1),
    ]  # fmt: skip
    assert (reply.xid, reply.err, reply.body) == (-8, 0, None)
    assert ensemble.services[0].watches.by_path() == {"/p/never": [watcher], "/p/same": [watcher]}
    ensemble.ask(writer, set_data("/p/same"))
    ensemble.ask(writer, create("/p/never"))
    assert fired(ensemble, watcher) == [(DATA, "/p/same"), (CREATED, "/p/never")]
