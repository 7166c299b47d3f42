"""kazoo itself, and our KazooClient with kazoo's recipes, on our peers and on Apache ZooKeeper.

Each test runs with all four combinations, so that a difference from the original appears as a different result.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import kazoo.client
import pytest
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConfigurationError,
    ConnectionClosedError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState, KeeperState, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from tests.interop.interop_servers import Ensemble, running
from zabka.ensemble.client import connect
from zabka.ensemble.client.kazoo import KazooClient
from zabka.ensemble.client.service import Check, Create, SessionState, SetData, WatchEvent
from zabka.ensemble.errors import ErrorCode, NoNode
from zabka.ensemble.records import ConnectRequest, ConnectResponse, EmptyRequest, OpCode, Request
from zabka.ensemble.records import EventType as WatchType

WAIT_S = 15.0
_numbers = itertools.count(1)
MakeClient = Callable[..., Any]


@pytest.fixture(scope="module", params=["ours", "zookeeper"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    size = 3 if request.param == "ours" else 1
    with running(request.param, size, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
def chroot(servers: Ensemble) -> str:
    """Return a connection string that ends with a path that only this test uses."""
    path = f"/test-{next(_numbers)}"
    client = kazoo.client.KazooClient(servers.hosts)
    client.start(WAIT_S)
    client.create(path)
    client.stop()
    client.close()
    return servers.hosts + path


@pytest.fixture(params=["kazoo", "shim"])
def make(request: pytest.FixtureRequest, chroot: str) -> Iterator[MakeClient]:
    """Yield a function that creates and starts clients: kazoo's, or our KazooClient."""
    kind = kazoo.client.KazooClient if request.param == "kazoo" else KazooClient
    made: list[Any] = []

    def make_client(**options: Any) -> Any:
        client = kind(options.pop("hosts", chroot), **options)
        made.append(client)
        client.start(WAIT_S)
        client.sync("/")  # each client may use another server
        return client

    yield make_client
    for client in made:
        client.stop()
        client.close()


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)


def test_znodes_are_created_read_changed_and_deleted(make: MakeClient) -> None:
    client = make()
    assert client.create("/a", b"1") == "/a"
    path, stat = client.create("/a/b-", b"22", sequence=True, include_data=True)
    assert path == "/a/b-0000000000" and stat.dataLength == 2 and stat.version == 0
    data, stat = client.get("/a")
    assert data == b"1" and isinstance(stat, ZnodeStat) and stat.children_count == 1
    assert client.set("/a", b"2", version=0).version == 1
    names, stat = client.get_children("/a", include_data=True)
    assert names == ["b-0000000000"] and stat.cversion == 1
    assert client.exists("/a/none") is None
    assert client.get_acls("/a")[0] == OPEN_ACL_UNSAFE
    assert client.sync("/a") == "/a"
    assert client.delete(path) is True
    client.delete("/a", recursive=True)
    assert client.get_children("/") == []


def test_kazoo_exceptions_are_raised(make: MakeClient) -> None:
    client = make()
    client.create("/a", ephemeral=True)
    client.create("/p/q", makepath=True)
    with pytest.raises(NodeExistsError):
        client.create("/a")
    with pytest.raises(NoNodeError):
        client.get("/none")
    with pytest.raises(NoNodeError):
        client.create("/none/b")
    with pytest.raises(BadVersionError):
        client.set("/a", b"", version=7)
    with pytest.raises(NotEmptyError):
        client.delete("/p")
    with pytest.raises(NoChildrenForEphemeralsError):
        client.create("/a/b")
    with pytest.raises(TypeError):
        client.create("/b", "text")
    with pytest.raises(TypeError):
        client.get("/a", watch=4)
    with pytest.raises(ValueError, match="relative"):
        client.get("/a/../b")


def test_makepath_and_ensure_path_create_missing_znodes(make: MakeClient) -> None:
    client = make()
    assert client.create("/a/b/c-", sequence=True, makepath=True) == "/a/b/c-0000000000"
    assert client.ensure_path("/a/b/d/e")
    assert client.ensure_path("/a/b/d/e") is True
    assert sorted(client.get_children("/a/b")) == ["c-0000000000", "d"]


def test_async_calls_complete_in_order_and_accept_callbacks(make: MakeClient) -> None:
    client = make()
    client.create("/n")
    order: list[int] = []
    done = threading.Event()
    results = [client.set_async("/n", str(i).encode()) for i in range(100)]

    def link(i: int) -> Callable[[Any], None]:
        def note(result: Any) -> None:
            order.append(i)
            if i == 99:
                done.set()

        return note

    for i, result in enumerate(results):
        result.rawlink(link(i))
    assert [result.get(timeout=WAIT_S).version for result in results] == list(range(1, 101))
    assert done.wait(WAIT_S) and order == list(range(100))
    missing = client.get_async("/none")
    with pytest.raises(NoNodeError):
        missing.get(timeout=WAIT_S)
    assert isinstance(missing.exception, NoNodeError)


def test_kazoo_transaction_is_atomic(make: MakeClient) -> None:
    client = make()
    client.create("/t")
    with client.transaction() as good:
        good.check("/t", 0)
        good.create("/t/a", b"1")
        good.set_data("/t", b"2")
        good.delete("/t/a")
    bad = client.transaction()
    bad.create("/t/b")
    bad.check("/t", 77)
    bad.create("/t/c")
    results = bad.commit()
    assert [type(result) for result in results] == [RolledBackError, BadVersionError, RuntimeInconsistency]
    assert client.get_children("/t") == [] and client.get("/t")[0] == b"2"
    again = client.transaction()
    again.create("/t/d-", sequence=True, ephemeral=True)
    assert again.commit() == ["/t/d-0000000001"]
    with pytest.raises(ValueError, match="already committed"):
        again.commit()


def test_one_shot_watches_fire_once(make: MakeClient) -> None:
    client, other = make(), make()
    events: list[Any] = []
    assert client.exists("/w", watch=events.append) is None
    other.create("/w", b"1")
    until(lambda: len(events) == 1, "created")
    client.get("/w", watch=events.append)
    client.get_children("/w", watch=events.append)
    other.set("/w", b"2")
    other.create("/w/c")
    until(lambda: len(events) == 3, "changed and child")
    other.set("/w", b"3")
    client.sync("/w")  # without the sync, its server may lack the change, and the watch would fire for it
    client.get("/w", watch=events.append)
    other.delete("/w/c")
    other.delete("/w")
    until(lambda: len(events) == 4, "deleted")
    kinds = [(event.type, event.path) for event in events]
    assert kinds[0] == (EventType.CREATED, "/w")
    assert set(kinds[1:3]) == {(EventType.CHANGED, "/w"), (EventType.CHILD, "/w")}
    assert kinds[3] == (EventType.DELETED, "/w")
    assert events[0].state == KeeperState.CONNECTED


def test_ephemeral_is_deleted_with_its_session(make: MakeClient) -> None:
    client, other = make(), make()
    client.create("/e", ephemeral=True)
    other.sync("/")
    gone = threading.Event()
    assert other.get("/e", watch=lambda event: gone.set())[1].owner_session_id == client.client_id[0]
    client.stop()
    assert gone.wait(WAIT_S)
    assert other.exists("/e") is None


def test_client_state_and_listeners_reflect_restart_and_stop(make: MakeClient) -> None:
    client = make()
    states: list[Any] = []
    client.add_listener(states.append)
    assert (client.connected, client.state, client.client_state) == (True, KazooState.CONNECTED, KeeperState.CONNECTED)
    first = client.client_id
    client.restart()
    assert client.client_id != first
    client.stop()
    assert states == [KazooState.LOST, KazooState.CONNECTED, KazooState.LOST]
    assert (client.connected, client.client_id, client.client_state) == (False, None, KeeperState.CLOSED)
    with pytest.raises(ConnectionClosedError):
        client.get("/")
    client.close()
    client.start()
    assert client.get("/")[0] == b""


def test_listener_that_returns_true_is_removed(make: MakeClient) -> None:
    client = make()
    calls: list[Any] = []

    def once(state: Any) -> bool:
        calls.append(state)
        return True

    client.add_listener(once)
    client.restart()
    assert len(calls) == 1
    with pytest.raises(ConfigurationError):
        client.add_listener(None)


def test_kazoo_sends_admin_commands_and_reads_server_version(make: MakeClient) -> None:
    client = make()
    assert client.command(b"ruok") == "imok"
    assert client.server_version() >= (3, 9)


def test_rejected_credentials_raise_auth_failed(make: MakeClient) -> None:
    client = make()
    assert client.add_auth("digest", "user:secret") is True
    with pytest.raises(AuthFailedError):
        client.add_auth("no-such-scheme", "x")


def test_lock_has_one_holder_and_is_passed_on(make: MakeClient) -> None:
    clients = [make() for _ in range(3)]
    holders: list[int] = []
    inside: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            with clients[number].Lock("/lock", f"client-{number}"):
                inside.append(number)
                assert len(inside) == 1
                holders.append(number)
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S * 2)
    assert sorted(holders) == sorted([0, 1, 2] * 5)
    assert clients[0].Lock("/lock").contenders() == []


def test_read_locks_are_shared_and_exclude_writers(make: MakeClient) -> None:
    one, two = make(), make()
    with one.ReadLock("/rw"), two.ReadLock("/rw"):
        assert not two.WriteLock("/rw").acquire(blocking=False)
    assert one.WriteLock("/rw").acquire(timeout=WAIT_S)


def test_election_has_one_leader_and_continues_when_it_stops(make: MakeClient) -> None:
    one, two = make(), make()
    led: list[str] = []
    release = threading.Event()

    def lead(name: str) -> None:
        led.append(name)
        release.wait(WAIT_S)

    elections = [one.Election("/election", "one"), two.Election("/election", "two")]
    first = threading.Thread(target=elections[0].run, args=(lead, "one"))
    first.start()
    until(lambda: led == ["one"], "a first leader")
    second = threading.Thread(target=elections[1].run, args=(lead, "two"))
    second.start()
    until(lambda: elections[0].contenders() == ["one", "two"], "two contenders")
    assert led == ["one"]
    release.set()
    first.join(WAIT_S)
    second.join(WAIT_S)
    assert led == ["one", "two"]


def test_data_and_children_watches_see_the_final_state(make: MakeClient) -> None:
    client, other = make(), make()
    client.create("/d", b"0")
    data: list[Any] = []
    children: list[Any] = []
    client.DataWatch("/d")(lambda value, stat: data.append(value))
    client.ChildrenWatch("/d")(lambda names: children.append(sorted(names)))
    until(lambda: data == [b"0"] and children == [[]], "first calls")
    other.set("/d", b"1")
    other.create("/d/x")
    until(lambda: data[-1] == b"1" and children[-1] == ["x"], "changes")
    other.delete("/d/x")
    until(lambda: children[-1] == [], "child gone")
    other.delete("/d")
    until(lambda: data[-1] is None, "deleted")


def test_counter_counts_every_increment_of_every_client(make: MakeClient) -> None:
    counters = [make().Counter("/counter") for _ in range(2)]

    def add(counter: Any) -> None:
        for _ in range(15):
            counter += 1

    threads = [threading.Thread(target=add, args=(counter,)) for counter in counters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S * 2)
    until(lambda: counters[0].value == 30, "thirty")


def test_queue_barrier_and_other_recipes_work(make: MakeClient) -> None:
    client = make()
    queue = client.Queue("/queue")
    queue.put(b"1")
    queue.put(b"2")
    assert (queue.get(), queue.get(), queue.get()) == (b"1", b"2", None)
    barrier = client.Barrier("/barrier")
    barrier.create()
    assert barrier.wait(0) is False
    barrier.remove()
    assert barrier.wait(0) is True
    party = client.Party("/party", "me")
    party.join()
    assert list(party) == ["me"]
    party.leave()
    assert len(party) == 0
    with client.Semaphore("/semaphore", max_leases=1):
        assert not client.Semaphore("/semaphore", max_leases=1).acquire(blocking=False)


def test_retry_repeats_a_call_up_to_its_limit(make: MakeClient) -> None:
    client = make(command_retry=KazooRetry(max_tries=3, delay=0.01))
    calls: list[int] = []

    def flaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise kazoo.exceptions.ConnectionLoss
        return "done"

    assert client.retry(flaky) == "done"
    with pytest.raises(NoNodeError):
        client.retry(client.get, "/none")


def test_session_can_be_resumed_by_another_client(make: MakeClient, servers: Ensemble) -> None:
    session_id, password = open_session(servers.servers[0].port)
    client = make(client_id=(session_id, password))
    assert client.client_id == (session_id, password)
    client.create("/e", ephemeral=True)
    assert client.get("/e")[1].owner_session_id == session_id


def test_expired_session_is_replaced_by_a_new_session(make: MakeClient) -> None:
    client = make(client_id=(0x1234, bytes(16)))
    assert client.client_id[0] not in (0, 0x1234)
    assert client.get_children("/") == []


def test_kazoo_client_recovers_after_its_session_expires(make: MakeClient, servers: Ensemble) -> None:
    client, other = make(), make()
    other.create("/d", b"0")
    client.sync("/")
    client.create("/e", ephemeral=True)
    states: list[Any] = []
    events: list[Any] = []
    data: list[Any] = []
    client.add_listener(states.append)
    client.DataWatch("/d")(lambda value, stat: data.append(value))
    client.get_children("/d", watch=events.append)
    session_id, password = client.client_id
    close_session(servers.servers[0].port, session_id, password)
    # The client may resume its session several times before the session is finally closed.
    until(lambda: KazooState.LOST in states and states[-1] == KazooState.CONNECTED, "a new session")
    assert states[-3:] == [KazooState.SUSPENDED, KazooState.LOST, KazooState.CONNECTED]
    assert client.client_id[0] != session_id
    assert [(event.type, event.path) for event in events] == [(EventType.NONE, None)]
    client.sync("/")
    assert client.exists("/e") is None
    other.set("/d", b"1")
    until(lambda: data[-1] == b"1", "the watch goes on")


def open_session(port: int) -> tuple[int, bytes]:
    """Open a session, and close the connection without closing the session. Return its id and password."""
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as link:
        reply = attach(link, 0, bytes(16))
    assert reply is not None
    return reply.session_id, reply.password


def close_session(port: int, session_id: int, password: bytes) -> None:
    """Close a session by resuming it on another connection. This can take several attempts."""
    for _ in range(100):
        try:
            with socket.create_connection(("127.0.0.1", port), WAIT_S) as link:
                reply = attach(link, session_id, password)
                if reply is not None and not reply.session_id:
                    return
                link.sendall(framed(Request(1, OpCode.CLOSE_SESSION, EmptyRequest()).encode()))
                while link.recv(4096):
                    pass
        except OSError:
            continue
    raise AssertionError("the session would not end")


def attach(link: socket.socket, session_id: int, password: bytes) -> ConnectResponse | None:
    """Send a ConnectRequest for this session. Return the response, or None if the server closed the connection."""
    link.sendall(framed(ConnectRequest(0, 0, 10_000, session_id, password).encode()))
    with link.makefile("rb") as stream:
        size = stream.read(4)
        return ConnectResponse.decode(stream.read(int.from_bytes(size, "big"))) if size else None


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def test_start_without_any_server_times_out(make: MakeClient) -> None:
    client = make()
    lonely = type(client)("127.0.0.1:1", timeout=1)
    with pytest.raises(KazooTimeoutError):
        lonely.start(timeout=0.3)
    assert not lonely.connected


@pytest.mark.parametrize(
    "options",
    [
        {"sasl_options": {"mechanism": "GSSAPI"}},
        {"sasl_options": {"mechanism": "DIGEST-MD5"}},
        {"handler": object()},
        {"handler": type},
        {"hosts": "h:1/a"},
    ],
    ids=["GSSAPI", "DIGEST-MD5", "an object as handler", "a class as handler", "another chroot"],
)
def test_options_unsupported_by_kazoo_client_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        KazooClient(**options).set_hosts("h:1/b")


def test_asyncio_client_runs_every_operation_in_one_session(servers: Ensemble, chroot: str) -> None:
    async def session() -> None:
        events: list[WatchEvent] = []
        async with connect(chroot, session_timeout_ms=6_000) as client, connect(chroot) as other:
            path, stat = await client.create("/a", b"1", ephemeral=True)
            assert (path, stat.ephemeral_owner) == ("/a", client.session_id)
            assert await client.get("/a", events.append) == (b"1", stat)
            results = await client.multi([Check("/a", 0), SetData("/a", b"2"), Create("/b", b"")])
            assert [result.error for result in results] == [ErrorCode.OK] * 3
            assert [event[:2] for event in events] == [(WatchType.DATA_CHANGED, "/a")]
            failed = await client.multi([SetData("/a", b"3"), Check("/a", 0)])
            assert [result.error for result in failed] == [ErrorCode.OK, ErrorCode.BAD_VERSION]
            with pytest.raises(NoNode):
                await client.delete("/none")
            await other.sync("/")
            assert await other.get_children("/") == ["a", "b"]
            await client.close()
            assert client.state is SessionState.CLOSED
            await other.sync("/")
            assert await other.exists("/a") is None

    asyncio.run(asyncio.wait_for(session(), WAIT_S))


@pytest.mark.parametrize("kind", [kazoo.client.KazooClient, KazooClient], ids=["kazoo", "shim"])
def test_session_survives_the_loss_of_its_server(kind: Any, tmp_path: Any) -> None:
    with running("ours", 3, tmp_path) as servers:
        client = kind(servers.hosts, timeout=8.0)
        client.start(WAIT_S)
        try:
            session = client.client_id
            client.create("/e", b"1", ephemeral=True)
            states: list[Any] = []
            client.add_listener(states.append)
            next(s for s in servers.servers if s.port == server_port(client)).kill()
            until(lambda: states == [KazooState.SUSPENDED, KazooState.CONNECTED], "reconnected")
            assert client.client_id == session
            assert client.retry(client.get, "/e")[0] == b"1"
            assert client.retry(client.set, "/e", b"2").version == 1
        finally:
            client.stop()
            client.close()


def server_port(client: Any) -> int:
    """Return the port of the server that a client is connected to."""
    if isinstance(client, KazooClient):
        assert client._engine is not None
        return int(client._engine.server.rpartition(":")[2])
    port: int = client._connection._socket.getpeername()[1]
    return port
