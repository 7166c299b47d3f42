"""Helpful errors: a problem outside a peer causes one clear line with a remedy, and the peer loses no data."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from unittest import mock

import pytest
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss

from bench.free_ports import free_ports
from tests.ensemble.server.net.test_client_port import until
from tests.ensemble.server.peer_processes import Ensemble, exchange, wait_until
from tests.ensemble.tree.tree_driver import PING
from tests.ensemble.tree.tree_driver import Ensemble as Trees
from zabka.ensemble.ids import Epoch, PeerId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ConnectRequest
from zabka.ensemble.runtime.links import LinkFaults
from zabka.ensemble.server.config.zoo_cfg import ZooConfig, parse
from zabka.ensemble.server.net.election_port import UNLISTED_MAX, ElectionPort
from zabka.ensemble.server.net.election_wire import decode_opening, encode_notification, encode_opening
from zabka.ensemble.server.operator.operator_view import ClockWatch
from zabka.ensemble.server.process.ownership import OwnedMembershipFiles, claim
from zabka.ensemble.server.process.refusals import Refusals
from zabka.ensemble.txnlog.directory import open_directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import Notification, PeerState, Vote
from zabka.ensemble.zab.server_line import ServerLine, parse_server_line

NOTHING_NEW = Notification(PeerState.LOOKING, Vote(PeerId(3), Zxid(0), Epoch(0)), 1)


@pytest.fixture
def solo(tmp_path: Path) -> Iterator[Ensemble]:
    ensemble = Ensemble(tmp_path, 1)
    try:
        yield ensemble
    finally:
        ensemble.close()


def warnings(ensemble: Ensemble) -> list[str]:
    return [line for line in ensemble.log(1).splitlines() if "[warning" in line]


# -- clients and other programs that connect --------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["client", "quorum"])
def test_clients_cannot_use_the_reserved_descriptors(solo: Ensemble, port: str) -> None:
    """Connections cannot use the file descriptors that are reserved for the log and snapshots.

    A server exits if it cannot open such a file, and any client can use up descriptors by connecting.
    """
    quorum, election = free_ports(2)
    keys = f"snapCount=20\nstandaloneEnabled=false\nserver.1=127.0.0.1:{quorum}:{election}\n"
    solo.config(1).write_text(solo.config(1).read_text() + keys)
    solo.start(1)
    solo.wait_for_quorum()
    with solo.client(1) as client, ExitStack() as crowd:
        client.create("/a")
        resource.prlimit(solo.processes[1].pid, resource.RLIMIT_NOFILE, (120, 120))
        attacked = solo.client_ports[1] if port == "client" else quorum
        for _ in range(200):
            crowd.enter_context(socket.create_connection(("127.0.0.1", attacked), 5))
        snapshots = len([*solo.data(1).glob("snapshot.*")])
        for number in range(100):
            client.set("/a", b"%d" % number)
        wait_until(lambda: len([*solo.data(1).glob("snapshot.*")]) > snapshots)
    assert solo.stop(1) == 0


def test_leader_with_many_clients_can_still_accept_followers(tmp_path: Path) -> None:
    """A leader whose clients use all file descriptors available to them can still accept a follower.

    Otherwise the quorum would soon be lost.
    """
    hello = ConnectRequest(0, 0, 600_000, 0, bytes(16)).encode()
    ensemble = Ensemble(tmp_path, 3, tick_time=1000)
    try:
        ensemble.start()
        leader = ensemble.wait_for_quorum()
        follower = min(i for i in (1, 2, 3) if i != leader)
        ensemble.kill(follower)
        resource.prlimit(ensemble.processes[leader].pid, resource.RLIMIT_NOFILE, (120, 120))
        with ExitStack() as crowd:
            first, answered = None, True
            while answered:
                client = crowd.enter_context(socket.create_connection(("127.0.0.1", ensemble.client_ports[leader]), 5))
                with suppress(ConnectionError):
                    client.sendall(len(hello).to_bytes(4, "big") + hello)
                    answered = client.recv(100) != b""
                    first = first or client
                    continue
                answered = False
            assert first is not None
            ensemble.start(follower)
            wait_until(lambda: "Mode: follower" in ensemble.word(follower, "srvr"))
            first.setblocking(False)
            with pytest.raises(BlockingIOError):
                first.recv(100)  # the old session has not ended, so its id is still in use
        assert "connections are closed" in ensemble.log(leader)
    finally:
        ensemble.close()


# -- problems while a server runs --------------------------------------------------------------------------------------


def test_oversized_request_error_contains_limit_and_client(solo: Ensemble) -> None:
    solo.start()
    solo.wait_for_quorum()
    with solo.client() as client:
        client.create("/kept", b"x")
        with pytest.raises((ConnectionLoss, ConnectionClosedError)):
            client.set("/kept", b"x" * 2_000_000)
        wait_until(lambda: len(warnings(solo)) == 1)
        assert client.retry(client.get, "/kept")[0] == b"x"
    (line,) = warnings(solo)
    assert "it sent a request of 2000" in line and "jute.maxbuffer is 1048575: keep less in one znode" in line
    assert "remote=127.0.0.1:" in line


def test_client_of_another_protocol_is_logged_with_a_rate_limit(solo: Ensemble) -> None:
    solo.start()
    solo.wait_for_quorum()
    for _ in range(30):
        assert exchange(solo.client_ports[1], b"GET / HTTP/1.1\r\n\r\n") == b""
    lines = warnings(solo)
    assert 1 <= len(lines) <= 20 and all("it does not speak ZooKeeper's protocol" in line for line in lines)


def test_admin_port_in_use_causes_only_a_warning(solo: Ensemble) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with solo.config(1).open("a") as config:
            config.write(f"admin.enableServer=true\nadmin.serverPort={port}\n")
        solo.start()
        solo.wait_for_quorum()
    (line,) = warnings(solo)
    assert f"the admin server 127.0.0.1:{port} cannot be opened: process " in line
    assert "stop that, or change admin.serverPort; this peer goes on without it" in line


def test_wall_clock_jump_is_logged_once_but_slow_drift_is_not() -> None:
    watch = ClockWatch(Instant(1_000, 500_000))
    assert watch.check(Instant(2_000, 501_000)) is None
    assert watch.check(Instant(3_000, 503_500)) is None
    assert "jumped by +3600.0 s: sessions and timeouts do not depend on it" in (
        watch.check(Instant(4_000, 4_104_500)) or ""
    )
    assert watch.check(Instant(5_000, 4_105_500)) is None
    assert "jumped by -3600.0 s" in (watch.check(Instant(6_000, 506_500)) or "")


@pytest.mark.parametrize("jump_ms", [86_400_000, -86_400_000])
def test_wall_clock_jump_does_not_expire_sessions(monkeypatch: pytest.MonkeyPatch, jump_ms: int) -> None:
    trees = Trees()
    connection = trees.connect(timeout_ms=4_000)
    session_id, _ = trees.session(connection)
    trees.advance(2_000)
    monkeypatch.setattr(
        Trees, "now", property(lambda self: Instant(self.now_ms, 1_700_000_000_000 + self.now_ms + jump_ms))
    )
    trees.send(connection, PING)
    trees.advance(3_000)
    assert session_id in trees.services[0].tree.sessions
    trees.advance(6_000)
    assert session_id not in trees.services[0].tree.sessions, "it expires without pings"


# -- two servers with one id -------------------------------------------------------------------------------------------


class Listener:
    def __init__(self) -> None:
        self.broken: list[str] = []
        self.unlisted: list[tuple[int, str]] = []
        self.received = asyncio.Event()

    def on_notification(self, src, notification) -> None:
        self.received.set()

    def on_voter_unreachable(self, peer_id) -> None: ...

    def on_peer_broken(self, remote: str, reason: str) -> None:
        self.broken.append(reason)

    def on_unlisted_server(self, peer_id: int, address: str) -> None:
        self.unlisted.append((peer_id, address))


async def knock(port: int, opening: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(opening)
    return reader, writer


async def election_port(listener: Listener) -> tuple[ElectionPort, int, str]:
    """Return server 1's listening election port, its port number, and the address of server 3 in the server list."""
    mine, third = free_ports(2)
    servers = {PeerId(i): ServerLine("127.0.0.1", 1, port) for i, port in ((1, mine), (3, third))}
    port = ElectionPort(PeerId(1), servers, LinkFaults({}), listener)
    await port.listen(servers[PeerId(1)].addresses, print)
    return port, mine, f"127.0.0.1:{third}"


def test_second_server_with_the_same_id_is_rejected_with_reason() -> None:
    async def scenario() -> None:
        listener = Listener()
        port, mine, address = await election_port(listener)
        real, real_writer = await knock(mine, encode_opening(3, [address]) + encode_notification(NOTHING_NEW))
        await listener.received.wait()
        for _ in range(2):
            double, writer = await knock(mine, encode_opening(3, ["127.0.0.1:9"]))
            assert await double.read() == b""
            writer.close()
        assert listener.broken == [
            f"two servers have the id 3: {address} (from 127.0.0.1) and 127.0.0.1:9 (from 127.0.0.1); "
            "give each its own myid"
        ]
        # The server can connect again after its first connection broke without being closed.
        _, again_writer = await knock(mine, encode_opening(3, [address]))
        assert await real.read() == b""
        assert len(listener.broken) == 1 and PeerId(3) in port._connections
        real_writer.close()
        again_writer.close()
        await port.close()

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_server_at_its_configured_address_wins_an_id_conflict() -> None:
    async def scenario() -> None:
        listener = Listener()
        port, mine, address = await election_port(listener)
        wrong, wrong_writer = await knock(mine, encode_opening(3, ["127.0.0.1:9"]) + encode_notification(NOTHING_NEW))
        await listener.received.wait()
        _, right_writer = await knock(mine, encode_opening(3, [address]))
        assert await wrong.read() == b""
        assert len(listener.broken) == 1 and "two servers have the id 3" in listener.broken[0]
        wrong_writer.close()
        right_writer.close()
        await port.close()

    asyncio.run(asyncio.wait_for(scenario(), 10))


async def call_back(servers: dict[int, str], opening: bytes) -> tuple[Listener, int]:
    """Connect to server 2's election port, and send `opening`.

    Server 2 connects back to 127.0.0.1:PORT. Return its callbacks and the id in its own opening message.
    """
    called: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = decode_opening(await reader.read(1024))
        assert answer is not None
        called.set_result(int(answer.peer_id))
        writer.close()

    listener, (mine, other) = Listener(), free_ports(2)
    lines = {PeerId(i): parse_server_line(line.replace("MINE", str(mine))) for i, line in servers.items()}
    port = ElectionPort(PeerId(2), lines, LinkFaults({}), listener)
    await port.listen(lines[PeerId(2)].addresses, print)
    server = await asyncio.start_server(accept, "127.0.0.1", other)
    _, writer = await knock(mine, opening.replace(b"OTHER", b"%5d" % other))
    caller = await called
    writer.close()
    server.close()
    await port.close()
    return listener, caller


ANNOUNCED = encode_opening(1, ["127.0.0.1:OTHER"])


@pytest.mark.parametrize("listed", [None, "127.0.0.1:1:2", "192.0.2.1:1:2"], ids=["unlisted", "port", "host"])
def test_server_connects_back_to_the_announced_election_address(listed: str | None) -> None:
    """A server connects back to the address that the other server has announced, not to the one in its own list.

    A new or moved server already has the new list, while the other servers do not.
    """
    servers = {2: "127.0.0.1:1:MINE"} | ({1: listed} if listed is not None else {})
    listener, caller = asyncio.run(asyncio.wait_for(call_back(servers, ANNOUNCED), 2))
    assert (caller, listener.broken) == (2, [])
    assert [peer_id for peer_id, _ in listener.unlisted] == ([1] if listed is None else [])


def test_limit_of_unlisted_servers_counts_only_connected_ones() -> None:
    """A server that is not in the member list counts against the limit only while it is connected.

    If disconnected servers counted as well, later servers would be rejected until this server restarts.
    """

    async def scenario() -> list[str]:
        listener = Listener()
        port, mine, _ = await election_port(listener)
        for peer_id in range(100, 101 + UNLISTED_MAX):
            listener.received.clear()
            opening = encode_opening(peer_id, ["127.0.0.1:9"]) + encode_notification(NOTHING_NEW)
            reader, writer = await knock(mine, opening)
            await listener.received.wait()
            writer.close()
            assert await reader.read() == b""
            await until(lambda peer_id=peer_id: peer_id not in port._connections)
        assert not (port._announced or port._origins or port._last)
        await port.close()
        return listener.broken

    assert asyncio.run(asyncio.wait_for(scenario(), 10)) == []


@pytest.mark.parametrize("announced", ["0.0.0.0:7", "[::]:7"])
def test_configured_address_replaces_an_announced_wildcard(announced: str) -> None:
    """If a server announces a wildcard address, its address in the server list is used.

    In containers, the zoo.cfg of server 1 often has server.1=0.0.0.0:2888:3888.
    """

    async def scenario() -> list[tuple[str, int]]:
        listener = Listener()
        port, mine, _ = await election_port(listener)
        _, writer = await knock(mine, encode_opening(3, [announced]) + encode_notification(NOTHING_NEW))
        await listener.received.wait()
        addresses = port._addresses_of(PeerId(3))
        writer.close()
        await port.close()
        return addresses

    ((host, port),) = asyncio.run(asyncio.wait_for(scenario(), 10))
    assert host == "127.0.0.1" and port != 7


def test_unlisted_server_is_reported_once_with_instructions() -> None:
    lines: list[dict[str, object]] = []
    log = mock.Mock()
    log.warning.side_effect = lambda event, **more: lines.append({"event": event, **more})
    refusals = Refusals(log, print, lambda *_: None)
    refusals.admit_unlisted(PeerId(4), "h4:3888", reconfig_enabled=False)
    assert lines == [
        {
            "event": "a server that is not in this server's list has connected; it has no vote here",
            "server": 4,
            "address": "h4:3888",
            "remedy": "add server.4 to the zoo.cfg of every server and restart them one by one, or stop it",
        }
    ]


# -- rejected clients --------------------------------------------------------------------------------------------------


def test_client_with_a_later_zxid_is_logged(solo: Ensemble) -> None:
    solo.start()
    solo.wait_for_quorum()
    hello = ConnectRequest(0, 0x500000007, 5000, 0x1_0000_0000_0001, bytes(16)).encode()
    for _ in range(20):
        assert exchange(solo.client_ports[1], struct.pack(">i", len(hello)) + hello) == b""
    refused = "session 0x1000000000001: the client has seen zxid 0x500000007, the last one here is 0x"
    wait_until(lambda: refused in solo.log(1))
    assert 1 <= sum("refused a client" in line for line in warnings(solo)) <= 3


# -- a data directory of another server --------------------------------------------------------------------------------

SERVERS = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n"


def config_of(directory: Path, my_id: int, servers: str = SERVERS, more: str = "") -> ZooConfig:
    directory.mkdir(exist_ok=True)
    (directory / "myid").write_text(str(my_id))
    config = parse(f"dataDir={directory}\nclientPort=1\ninitLimit=5\nsyncLimit=2\n{servers}{more}")
    for lock in open_directories(config.data_dir, config.data_log_dir)[1]:
        lock.release()
    return config


def test_data_of_another_server_is_rejected(tmp_path: Path) -> None:
    claim(config_of(tmp_path, 2))
    with pytest.raises(DataDirectoryError, match=r"is the data of server 2, but myid says 1: put that right") as caught:
        claim(config_of(tmp_path, 1))
    assert "\n" not in str(caught.value)
    (tmp_path / "version-2" / ".owner").unlink()
    claim(config_of(tmp_path, 1))


def test_data_of_another_ensemble_is_rejected(tmp_path: Path) -> None:
    claim(config_of(tmp_path, 1))
    other = "server.1=x:1:2\nserver.2=y:1:2\n"
    with pytest.raises(DataDirectoryError, match=r"another ensemble \(server.1=a:1, .*\), not of server.1=x:1"):
        claim(config_of(tmp_path, 1, other))
    claim(config_of(tmp_path, 1, other, "zabka.control.socket=/s\n"))


def test_ensemble_can_replace_its_servers_one_by_one(tmp_path: Path) -> None:
    for hosts in ("abc", "abx", "ayx", "zyx"):
        claim(config_of(tmp_path, 1, "".join(f"server.{i}={host}:1:2\n" for i, host in enumerate(hosts, 1))))


MOVED = Membership.parse("server.1=x:1:2:participant;3\nserver.2=y:1:2:participant;3\nversion=100000007")


def test_ensemble_with_new_host_names_for_all_servers_starts(tmp_path: Path) -> None:
    claim(config_of(tmp_path, 1, "server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\n"))
    claim(config_of(tmp_path, 1, "server.1=localhost:1:2\nserver.2=localhost:3:4\n"))
    with pytest.raises(DataDirectoryError, match="another ensemble"):
        claim(config_of(tmp_path, 1, "server.1=localhost:5:6\nserver.2=localhost:7:8\n"))


def test_data_moved_by_reconfig_is_rejected_at_old_addresses(tmp_path: Path) -> None:
    """A server's data directory belongs to the ensemble at the new addresses after a reconfig has moved its servers.

    A new ensemble at the former addresses must not get this data.
    """
    config = config_of(tmp_path, 1)
    claim(config)
    OwnedMembershipFiles(mock.Mock(), config).save(MOVED)
    with pytest.raises(DataDirectoryError, match="another ensemble"):
        claim(config)
    claim(config_of(tmp_path, 1, "server.1=x:1:2\nserver.2=y:1:2\n"))


def test_failed_reconfig_write_does_not_change_data_dir_owner(tmp_path: Path) -> None:
    config = config_of(tmp_path, 1)
    claim(config)
    kept = mock.Mock()
    kept.save.side_effect = DataDirectoryError("the disk is full")
    with pytest.raises(DataDirectoryError, match="full"):
        OwnedMembershipFiles(kept, config).save(MOVED)
    claim(config)


def test_standalone_server_does_not_claim_its_data_directory(tmp_path: Path) -> None:
    claim(config_of(tmp_path, 1, ""))
    claim(config_of(tmp_path, 3))
    assert json.loads((tmp_path / "version-2" / ".owner").read_text())["server"] == 3


# -- reasons not to start ----------------------------------------------------------------------------------------------


def test_missing_or_unusable_data_file_is_reported_in_one_line(solo: Ensemble) -> None:
    config, data = solo.config(1), solo.directory / "1" / "data"
    text = config.read_text()
    several = text + "server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\n"
    (solo.directory / "file").write_text("")
    trials = {
        several: f"{data / 'myid'} is missing; it must hold this server's id",
        text.replace(str(data), str(solo.directory / "file")): "cannot be ",
        text.replace("clientPort=", "clientPort=x"): f"is not a number from 0 to 65535 (in {config})",
    }
    (data / "myid").unlink()
    for trial, message in trials.items():
        config.write_text(trial)
        code, output = solo.run_to_its_end(1)
        assert (code, len(output.splitlines())) == (1, 1), output
        assert output.startswith("zabka peer: ") and message in output
    config.unlink()
    assert solo.run_to_its_end(1) == (1, f"zabka peer: {config} cannot be read: No such file or directory\n")


def test_oversized_frame_after_a_write_does_not_undo_the_write(solo: Ensemble) -> None:
    solo.start()
    solo.wait_for_quorum()
    hello = struct.pack(">iqiqi", 0, 0, 5000, 0, 16) + bytes(16)
    path = b"/before"
    acl = struct.pack(">ii", 1, 31) + struct.pack(">i", 5) + b"world" + struct.pack(">i", 6) + b"anyone"
    create = struct.pack(">iii", 1, 1, len(path)) + path + struct.pack(">i", 1) + b"x" + acl + struct.pack(">i", 0)
    with socket.create_connection(("127.0.0.1", solo.client_ports[1]), 5) as connection:
        connection.sendall(struct.pack(">i", len(hello)) + hello)
        assert connection.recv(100)
        connection.sendall(struct.pack(">i", len(create)) + create + struct.pack(">i", 50_000_000) + b"x" * 100)
    with solo.client() as client:
        wait_until(lambda: client.exists("/before") is not None)
