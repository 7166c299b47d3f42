"""Persistent watches (addWatch): how they are set, removed, and restored on reconnect.

The events were measured with ZooKeeper 3.9.5.
"""

import random

import pytest

from tests.ensemble.tree.tree_driver import Ensemble, children, create, delete, exists, get, multi, set_data
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import (
    ACL,
    AddWatchMode,
    AddWatchRequest,
    AuthPacket,
    ErrorResponse,
    EventType,
    OpCode,
    Reply,
    Request,
    SetWatches,
    SetWatches2,
    WatcherEvent,
    WatcherType,
    WatchesRequest,
)

CREATED, DELETED = EventType.CREATED, EventType.DELETED
DATA, CHILDREN = EventType.DATA_CHANGED, EventType.CHILDREN_CHANGED
PERSISTENT, RECURSIVE = AddWatchMode.PERSISTENT, AddWatchMode.PERSISTENT_RECURSIVE


def add_watch(path, mode):
    return OpCode.ADD_WATCH, AddWatchRequest(path, mode)


def check(path, kind):
    return OpCode.CHECK_WATCHES, WatchesRequest(path, kind)


def remove(path, kind):
    return OpCode.REMOVE_WATCHES, WatchesRequest(path, kind)


def fired(ensemble, connection):
    """Return the watch events among the messages since the previous call."""
    messages = ensemble.take(connection)
    return [(EventType(m.body.type), m.body.path) for m in messages if isinstance(m.body, WatcherEvent)]


def watching(*watches):
    """Return an ensemble with /p and /p/a, a writer, and a client that has set these watches."""
    ensemble = Ensemble()
    writer, watcher = ensemble.connect(), ensemble.connect()
    for path in ("/p", "/p/a"):
        ensemble.ask(writer, create(path))
    for watch in watches:
        assert ensemble.ask(watcher, watch).err == 0
    ensemble.take(watcher)
    return ensemble, writer, watcher


REBORN = multi(delete("/p/a"), delete("/p"), create("/p"))
TABLE = [
    (set_data("/p"), PERSISTENT, [(DATA, "/p")]),
    (set_data("/p"), RECURSIVE, [(DATA, "/p")]),
    (create("/p/b"), PERSISTENT, [(CHILDREN, "/p")]),
    (create("/p/b"), RECURSIVE, [(CREATED, "/p/b")]),
    (delete("/p/a"), PERSISTENT, [(CHILDREN, "/p")]),
    (delete("/p/a"), RECURSIVE, [(DELETED, "/p/a")]),
    (set_data("/p/a"), PERSISTENT, []),
    (set_data("/p/a"), RECURSIVE, [(DATA, "/p/a")]),
    (create("/p/a/c"), PERSISTENT, []),
    (create("/p/a/c"), RECURSIVE, [(CREATED, "/p/a/c")]),
    (create("/pp"), RECURSIVE, []),
    (create("/q"), RECURSIVE, []),
    (REBORN, PERSISTENT, [(CHILDREN, "/p"), (DELETED, "/p"), (CREATED, "/p")]),
    (REBORN, RECURSIVE, [(DELETED, "/p/a"), (DELETED, "/p"), (CREATED, "/p")]),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "mode", "events"), TABLE)
def test_persistent_watch_receives_only_the_events_of_its_mode(operation, mode, events):
    ensemble, writer, watcher = watching(add_watch("/p", mode))
    assert ensemble.ask(writer, operation).err == 0
    assert fired(ensemble, watcher) == events


@pytest.mark.parametrize("mode", [PERSISTENT, RECURSIVE])
def test_persistent_watch_remains_after_events_and_deletion(mode):
    ensemble, writer, watcher = watching(add_watch("/p/a", mode))
    for operation in (set_data("/p/a"), set_data("/p/a"), delete("/p/a"), create("/p/a"), set_data("/p/a")):
        ensemble.ask(writer, operation)
    kinds = [event for event, path in fired(ensemble, watcher) if path == "/p/a"]
    assert kinds == [DATA, DATA, DELETED, CREATED, DATA]


def test_recursive_root_watch_receives_all_but_children_events():
    ensemble, writer, watcher = watching(add_watch("/", RECURSIVE))
    ensemble.ask(writer, create("/x"))
    ensemble.ask(writer, create("/x/y"))
    ensemble.ask(writer, set_data("/"))
    assert fired(ensemble, watcher) == [(CREATED, "/x"), (CREATED, "/x/y"), (DATA, "/")]


def test_add_watch_accepts_missing_znodes_and_invalid_paths():
    ensemble, writer, watcher = watching()
    reply = ensemble.ask(watcher, add_watch("/later", PERSISTENT))
    assert (reply.err, reply.body) == (0, ErrorResponse(0))
    assert ensemble.ask(watcher, add_watch("p/", RECURSIVE)).err == 0, "measured: ZooKeeper looks at neither"
    ensemble.ask(writer, create("/later"))
    assert fired(ensemble, watcher) == [(CREATED, "/later")]


@pytest.mark.parametrize("mode", [2, -1, 77])
def test_unknown_watch_mode_is_a_marshalling_error(mode):
    ensemble, _, watcher = watching()
    assert ensemble.ask(watcher, add_watch("/p", mode)) == Reply(1, ensemble.zxid, ErrorCode.MARSHALLING_ERROR)
    assert len(ensemble.services[0].watches) == 0


def test_connection_with_several_watches_receives_an_event_once():
    everything = (
        get("/p/a", True), children("/p/a", True), add_watch("/p/a", PERSISTENT), add_watch("/p/a", RECURSIVE),
        add_watch("/p", RECURSIVE), add_watch("/", RECURSIVE),
    )  # fmt: skip
    ensemble, writer, watcher = watching(*everything)
    ensemble.ask(writer, delete("/p/a"))
    assert fired(ensemble, watcher) == [(DELETED, "/p/a")]


def test_one_time_watch_next_to_a_persistent_one_fires_once():
    ensemble, writer, watcher = watching(children("/p", True), add_watch("/p", RECURSIVE))
    ensemble.ask(writer, create("/p/b"))
    assert fired(ensemble, watcher) == [(CREATED, "/p/b"), (CHILDREN, "/p")]
    ensemble.ask(writer, create("/p/c"))
    assert fired(ensemble, watcher) == [(CREATED, "/p/c")]


def test_events_of_a_multi_are_sent_in_order_before_its_reply():
    ensemble, writer, _ = watching()
    ensemble.ask(writer, add_watch("/s", RECURSIVE))
    ensemble.take(writer)
    ensemble.send(writer, multi(create("/s"), create("/s/1"), set_data("/s"), delete("/s/1")))
    *events, reply = ensemble.take(writer)
    assert [(m.xid, m.zxid) for m in events] == [(-1, ensemble.zxid)] * 4
    assert [(m.body.type, m.body.path) for m in events] == [
        (CREATED, "/s"), (CREATED, "/s/1"), (DATA, "/s"), (DELETED, "/s/1"),
    ]  # fmt: skip
    assert reply.xid == 4 and reply.err == 0


def test_watch_without_read_permission_receives_no_events():
    ensemble, writer, watcher = watching(add_watch("/p", RECURSIVE), add_watch("/p", PERSISTENT))
    ensemble.ask(writer, (OpCode.AUTH, AuthPacket(0, "digest", b"ann:secret")))
    ensemble.ask(writer, create("/p/private", acl=(ACL(31, "auth", ""),)))
    ensemble.ask(writer, set_data("/p/private"))
    assert fired(ensemble, watcher) == [(CHILDREN, "/p")], "the parent is open, the child is not"


def test_exists_without_read_permission_leaves_no_watch():
    ensemble, writer, watcher = watching()
    ensemble.ask(writer, (OpCode.AUTH, AuthPacket(0, "digest", b"ann:secret")))
    ensemble.ask(writer, create("/private", acl=(ACL(31, "auth", ""),)))
    assert ensemble.ask(watcher, exists("/private", True)).err == ErrorCode.NO_AUTH
    assert len(ensemble.services[0].watches) == 0


# -- adding and removing ---------------------------------------------------------------------------------------------

ALL_WATCHES = (get("/p", True), children("/p", True), add_watch("/p", PERSISTENT), add_watch("/p", RECURSIVE))
ONE_OF_EACH = [WatcherType.DATA, WatcherType.CHILDREN, WatcherType.PERSISTENT, WatcherType.PERSISTENT_RECURSIVE]


@pytest.mark.parametrize("index", range(4))
def test_check_watches_finds_a_watch_by_exact_type_or_type_any(index):
    ensemble, _, watcher = watching(ALL_WATCHES[index])
    for kind in ONE_OF_EACH:
        expected = 0 if kind is ONE_OF_EACH[index] else ErrorCode.NO_WATCHER
        assert ensemble.ask(watcher, check("/p", kind)).err == expected
    assert ensemble.ask(watcher, check("/p", WatcherType.ANY)).err == 0
    assert ensemble.ask(watcher, check("/p/a", WatcherType.ANY)).err == ErrorCode.NO_WATCHER


@pytest.mark.parametrize("index", range(4))
def test_removing_a_watch_type_keeps_the_others(index):
    ensemble, writer, watcher = watching(*ALL_WATCHES)
    reply = ensemble.ask(watcher, remove("/p", ONE_OF_EACH[index]))
    assert reply == Reply(5, ensemble.zxid, 0), "no body, and no event"
    assert ensemble.ask(watcher, remove("/p", ONE_OF_EACH[index])).err == ErrorCode.NO_WATCHER
    for kind in ONE_OF_EACH:
        expected = ErrorCode.NO_WATCHER if kind is ONE_OF_EACH[index] else 0
        assert ensemble.ask(watcher, check("/p", kind)).err == expected
    ensemble.take(watcher)
    ensemble.ask(writer, set_data("/p"))
    assert fired(ensemble, watcher) == [(DATA, "/p")], "the others fire"


def test_remove_watches_of_type_any_affects_only_its_connection():
    ensemble, writer, watcher = watching(*ALL_WATCHES)
    other = ensemble.connect()
    ensemble.ask(other, add_watch("/p", PERSISTENT))
    assert ensemble.ask(watcher, remove("/p", WatcherType.ANY)).err == 0
    assert ensemble.ask(watcher, remove("/p", WatcherType.ANY)).err == ErrorCode.NO_WATCHER
    ensemble.take(watcher), ensemble.take(other)
    ensemble.ask(writer, set_data("/p"))
    assert fired(ensemble, watcher) == [] and fired(ensemble, other) == [(DATA, "/p")]


@pytest.mark.parametrize("kind", [0, 6, -1])
def test_unknown_watcher_type_is_a_marshalling_error(kind):
    ensemble, _, watcher = watching()
    assert ensemble.ask(watcher, check("/p", kind)).err == ErrorCode.MARSHALLING_ERROR
    assert ensemble.ask(watcher, remove("/p", kind)).err == ErrorCode.MARSHALLING_ERROR


@pytest.mark.parametrize("op", [OpCode.ADD_WATCH, OpCode.CHECK_WATCHES, OpCode.REMOVE_WATCHES, OpCode.SET_WATCHES2])
def test_unreadable_watch_request_is_a_marshalling_error(op):
    ensemble, _, watcher = watching()
    ensemble.message(watcher, Request.decode(op.to_bytes(4, "big") * 2 + b"\0\0\0\2/p"))
    assert ensemble.take(watcher)[-1].err == ErrorCode.MARSHALLING_ERROR
    assert watcher not in ensemble.closed


# -- counting --------------------------------------------------------------------------------------------------------


def test_persistent_watch_counts_as_data_and_child_watch():
    ensemble, _, watcher = watching(*ALL_WATCHES, add_watch("/p/a", PERSISTENT), add_watch("/p/a", PERSISTENT))
    service = ensemble.services[0]
    assert service.views.watch_counts() == (7, 1, 2)
    assert service.watches.watchers_of("/p") == [
        (watcher, "data"), (watcher, "children"), (watcher, "persistent"), (watcher, "recursive"),
    ]  # fmt: skip
    assert service.watches.by_path() == {"/p": [watcher], "/p/a": [watcher]}
    ensemble.hang_up(watcher)
    assert service.views.watch_counts() == (0, 0, 0)


def test_many_watchers_of_a_path_are_added_and_removed():
    ensemble = Ensemble()
    connections = [ensemble.connect() for _ in range(5)]
    watches = ensemble.services[0].watches
    for connection in connections:
        for request in (exists("/x", True), exists("/x", True), add_watch("/x", RECURSIVE)):
            ensemble.ask(connection, request)
    assert len(watches) == 10
    ensemble.hang_up(connections[0])
    ensemble.ask(connections[1], remove("/x", WatcherType.DATA))
    assert len(watches) == 7
    ensemble.take(connections[1]), ensemble.take(connections[4])
    ensemble.ask(connections[2], create("/x"))
    assert len(watches) == 4, "the one-shot watches are spent"
    assert fired(ensemble, connections[1]) == fired(ensemble, connections[4]) == [(CREATED, "/x")]
    for connection in connections[1:]:
        ensemble.hang_up(connection)
    assert len(watches) == 0 and watches.by_path() == {}


# -- after a reconnect -----------------------------------------------------------------------------------------------


def set_watches2(since, *lists):
    return OpCode.SET_WATCHES2, SetWatches2(since, *([*lists] + [[]] * (5 - len(lists))))


def test_set_watches2_sends_missed_events_and_sets_other_watches():
    ensemble, writer, watcher = watching()
    since = ensemble.zxid
    ensemble.ask(writer, set_data("/p/a"))
    ensemble.ask(writer, create("/p/b"))
    request = set_watches2(
        since, ["/p/a", "/p", "/gone"], ["/p/b", "/never"], ["/p", "/p/a", "/gone"], ["/p/a"], ["/p"]
    )
    xid = ensemble.send(watcher, request, xid=-8)
    *events, reply = ensemble.take(watcher)
    assert reply == Reply(xid, ensemble.zxid, 0)
    assert [(m.zxid, EventType(m.body.type), m.body.path) for m in events] == [
        (-1, DATA, "/p/a"), (-1, DELETED, "/gone"), (-1, CREATED, "/p/b"), (-1, CHILDREN, "/p"), (-1, DELETED, "/gone"),
    ]  # fmt: skip
    counts = ensemble.services[0].views.watch_counts()
    assert counts.watches == 6, "/p data, /never, /p/a children, and the lasting ones"


def test_set_watches_sends_persistent_watches_no_missed_events():
    ensemble, writer, watcher = watching()
    ensemble.ask(writer, set_data("/p"))
    assert ensemble.ask(watcher, set_watches2(0, [], [], [], ["/p", "/gone"], ["/p"])).err == 0
    assert fired(ensemble, watcher) == []
    ensemble.ask(writer, create("/p/b"))
    ensemble.ask(writer, create("/gone"))
    assert fired(ensemble, watcher) == [(CREATED, "/p/b"), (CHILDREN, "/p"), (CREATED, "/gone")]


def test_persistent_watches_end_with_their_connection():
    ensemble, writer, watcher = watching(add_watch("/p", PERSISTENT), add_watch("/p", RECURSIVE))

    ensemble.hang_up(watcher)
    ensemble.ask(writer, set_data("/p"))
    assert fired(ensemble, watcher) == [] and len(ensemble.services[0].watches) == 0


def test_set_watches_reply_has_the_request_xid():
    ensemble, _, watcher = watching()
    body = SetWatches(ensemble.zxid, ["/p"], [], [])
    ensemble.send(watcher, (OpCode.SET_WATCHES, body), xid=-8)
    ensemble.send(watcher, (OpCode.SET_WATCHES, body), xid=77)
    assert [m.xid for m in ensemble.take(watcher)] == [-8, 77]


# -- the order of events and replies that clients can rely on ----------------------------------------------------------

PATHS = ("/p", "/p/a", "/p/a/x", "/p/b")


@pytest.mark.parametrize("seed", range(20))
def test_watch_event_is_sent_before_a_read_shows_the_change(seed):
    """A client receives a watch event before it can read the changed state.

    It receives the events of later changes only after that read.
    """
    rng = random.Random(seed)
    ensemble = Ensemble(servers=2, auto=False)
    clients = [ensemble.connect(server) for server in (0, 1, 1)]
    ensemble.commit()
    for client in clients:
        mode = rng.choice((PERSISTENT, RECURSIVE))
        for path in PATHS if mode is PERSISTENT else ("/p",):
            ensemble.send(client, add_watch(path, mode))
    reads: dict[tuple[int, int], str] = {}
    for _ in range(150):
        client, path = rng.choice(clients), rng.choice(PATHS)
        request = rng.choice((create(path), delete(path), set_data(path), get(path), get(path)))
        xid = ensemble.send(client, request)
        if request[0] == OpCode.GET_DATA:
            reads[client, xid] = path
        if rng.random() < 0.4:
            ensemble.commit(min(1, len(ensemble.proposed)))
    ensemble.commit()
    shown = [answer for client in clients for answer in _compare(ensemble.take(client), client, reads)]
    assert len(shown) > 20


def _compare(messages, client, reads):
    """Yield the mzxid that each of the client's reads returned.

    Assert that it is the zxid of the last event that the client received before that read.
    """
    last_event: dict[str, int] = {}
    for message in messages:
        if not isinstance(message, Reply):
            continue
        event = message.body
        if isinstance(event, WatcherEvent):
            if event.type != CHILDREN:
                last_event[event.path] = 0 if event.type == DELETED else message.zxid
        elif (client, message.xid) in reads:
            path = reads[client, message.xid]
            seen = message.body.stat.mzxid if message.err == 0 else 0
            assert last_event.get(path, 0) == seen, f"{path}: read 0x{seen:x}, last_event {last_event}"
            yield seen
