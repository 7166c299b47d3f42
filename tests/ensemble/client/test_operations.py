"""Operations of the client, and connection strings."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.ensemble.client.client_fakes import STAT, FakeConnection, FakeEnsemble
from zabka.ensemble.client.hosts import Hosts, parse_hosts, split_host
from zabka.ensemble.client.service import Check, Create, Delete, Op, OpResult, SetData, WatchEvent
from zabka.ensemble.errors import BadVersion, ErrorCode, NoNode, OtherError, ZooKeeperError, error_for
from zabka.ensemble.records import (
    CheckVersionRequest,
    Create2Response,
    CreateRequest,
    DeleteRequest,
    EmptyRequest,
    EventType,
    GetDataResponse,
    MultiRequest,
    MultiResponse,
    MultiResult,
    OpCode,
    Reply,
    Request,
    SetDataRequest,
    StatResponse,
)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("h1:2181,h2:2182", Hosts(("h1:2181", "h2:2182"), "")),
        (" h1 , h2:1/kafka", Hosts(("h1:2181", "h2:1"), "/kafka")),
        ("[::1]:7,::1/a/b", Hosts(("[::1]:7", "[::1]:2181"), "/a/b")),
        ("peer-1:client,peer-2:client/", Hosts(("peer-1:client", "peer-2:client"), "")),
    ],
)
def test_connection_strings_are_parsed_as_in_zookeeper(text: str, hosts: Hosts) -> None:
    assert parse_hosts(text) == hosts


@pytest.mark.parametrize(
    "text",
    ["", ",", "/kafka", "h:0", "h:65536", "h:1x", "[::1:1", ":2181", "h:1/a//b", "h:1/../b", "h:1//a", "h:1/a\x01"],
)
def test_invalid_connection_string_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"bad|no "):
        parse_hosts(text)


@pytest.mark.parametrize("text", ["h:1/kafka/", "h:1//", "h:1/a/b/"])
def test_chroot_ending_with_a_slash_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must not end with a slash"):
        parse_hosts(text)


def test_host_without_a_port_uses_the_default_port() -> None:
    assert split_host("zk") == ("zk", 2181)


def test_replies_are_converted_to_plain_values() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    assert world.run(client.create("/a", b"x")) == ("/a", STAT)
    assert world.run(client.get("/a")) == (b"/a", STAT)
    assert world.run(client.set("/a", b"y")) == STAT
    assert world.run(client.exists("/a")) == STAT
    assert world.run(client.get_children("/a")) == ["a", "b"]
    assert world.run(client.delete("/a")) is None
    assert world.run(client.sync("/a")) is None


def test_null_data_is_read_as_empty() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.scripted[OpCode.GET_DATA] = lambda connection, request: Reply(request.xid, 1, 0, GetDataResponse(None, STAT))
    assert world.run(client.get("/a")) == (b"", STAT)


@pytest.mark.parametrize(
    ("code", "kind"), [(ErrorCode.NO_NODE, NoNode), (ErrorCode.BAD_VERSION, BadVersion), (-4242, OtherError)]
)
def test_awaiting_a_failed_call_raises_an_error_with_the_path(code: int, kind: type[ZooKeeperError]) -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.scripted[OpCode.DELETE] = world.fail_with(code)

    async def delete() -> ZooKeeperError | None:
        try:
            await client.delete("/a")
        except ZooKeeperError as error:
            return error
        return None

    error = world.run(delete())
    assert type(error) is kind and error.path == "/a"


def test_exists_of_a_missing_znode_returns_none() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.scripted[OpCode.EXISTS] = world.fail_with(ErrorCode.NO_NODE)
    assert world.run(client.exists("/a")) is None


def test_multi_returns_a_result_for_each_of_its_operations() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    seen: list[Any] = []

    def answer(connection: FakeConnection, request: Request) -> Reply:
        seen.append(request.body)
        results = [
            MultiResult(OpCode.CHECK, 0, EmptyRequest()),
            MultiResult(OpCode.CREATE2, 0, Create2Response("/a1", STAT)),
            MultiResult(OpCode.SET_DATA, 0, StatResponse(STAT)),
            MultiResult(OpCode.DELETE, 0, EmptyRequest()),
        ]
        return Reply(request.xid, 1, 0, MultiResponse(results))

    world.scripted[OpCode.MULTI] = answer
    ops: list[Op] = [
        Check("/c", 3),
        Create("/a", b"x", ephemeral=True, sequential=True),
        SetData("/b", b"y", 7),
        Delete("/d"),
    ]
    results = world.run(client.multi(ops))
    assert results == [
        OpResult(ErrorCode.OK),
        OpResult(ErrorCode.OK, "/a1", STAT),
        OpResult(ErrorCode.OK, None, STAT),
        OpResult(ErrorCode.OK),
    ]
    assert isinstance(seen[0], MultiRequest)
    bodies = [op.body for op in seen[0].ops]
    assert bodies[0] == CheckVersionRequest("/c", 3)
    assert isinstance(bodies[1], CreateRequest) and (bodies[1].path, bodies[1].flags) == ("/a", 3)
    assert bodies[2:] == [SetDataRequest("/b", b"y", 7), DeleteRequest("/d", -1)]


def test_failed_multi_returns_the_error_of_each_operation() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    errors = [0, ErrorCode.BAD_VERSION, ErrorCode.RUNTIME_INCONSISTENCY]
    results = MultiResponse([MultiResult(OpCode.ERROR, error, None) for error in errors])
    world.scripted[OpCode.MULTI] = lambda connection, request: Reply(request.xid, 1, 0, results)
    answer = world.run(client.multi([Delete("/a"), Delete("/b", 1), Delete("/c")]))
    assert answer == [OpResult(ErrorCode(error)) for error in errors]


def test_chroot_is_added_to_requests_and_removed_from_replies() -> None:
    world = FakeEnsemble()
    client, _ = world.started("a:1/kafka")
    events: list[WatchEvent] = []
    assert world.run(client.create("/x")) == ("/x", STAT)
    assert world.run(client.get("/", events.append))[0] == b"/kafka"
    assert world.run(client.get_children("/x", events.append)) == ["a", "b"]
    world.last.event(EventType.DATA_CHANGED, "/kafka")
    world.last.event(EventType.CHILDREN_CHANGED, "/kafka/x")
    world.advance(5)
    assert [event[:2] for event in events] == [(EventType.DATA_CHANGED, "/"), (EventType.CHILDREN_CHANGED, "/x")]


def test_missing_znodes_of_the_chroot_are_created() -> None:
    world = FakeEnsemble()
    client, _ = world.started("a:1/data/kafka/blue")
    standing = {"/data"}
    asked: list[str] = []

    def create(connection: FakeConnection, request: Request) -> Reply:
        path = request.body.path  # type: ignore[union-attr]
        asked.append(path)
        if path.rpartition("/")[0] not in standing:
            return world.answer(request, ErrorCode.NO_NODE)
        standing.add(path)
        return world.answer(request)

    world.scripted[OpCode.CREATE2] = create
    world.run(client.create_chroot())
    assert standing == {"/data", "/data/kafka", "/data/kafka/blue"}
    assert "/data" not in asked, "no write to the root, which may be forbidden"


def test_concurrently_created_chroot_is_not_an_error() -> None:
    world = FakeEnsemble()
    client, _ = world.started("a:1/kafka")
    world.scripted[OpCode.CREATE2] = world.fail_with(ErrorCode.NODE_EXISTS)
    world.run(client.create_chroot())


def test_client_without_a_chroot_creates_no_znode() -> None:
    world = FakeEnsemble()
    client, _ = world.started("a:1")
    world.run(client.create_chroot())
    assert world.last.requests() == []


def test_every_known_error_code_has_an_exception() -> None:
    for code in ErrorCode:
        if code not in (ErrorCode.OK, ErrorCode.SYSTEM_ERROR):
            assert error_for(code).code is code


def test_importing_the_client_loads_neither_asyncio_nor_kazoo() -> None:
    program = "import sys, zabka.ensemble.client.service; print([m for m in ('asyncio', 'kazoo') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert out.stdout.strip() == "[]"
