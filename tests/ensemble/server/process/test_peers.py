"""Peers as real processes: they elect a leader, answer kazoo clients, survive garbage, and lose no data after kill
-9.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import BadVersionError, ConnectionClosedError, ConnectionLoss
from kazoo.retry import KazooRetry

from tests.ensemble.server.peer_processes import Ensemble, exchange, pause, wait_until
from zabka.journal.reader import node_files


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    ensemble = Ensemble(tmp_path_factory.mktemp("trio"), 3)
    ensemble.start()
    try:
        ensemble.wait_for_quorum()
        yield ensemble
    finally:
        ensemble.close()


@pytest.fixture
def solo(tmp_path: Path) -> Iterator[Ensemble]:
    ensemble = Ensemble(tmp_path, 1)
    try:
        yield ensemble
    finally:
        ensemble.close()


def journal_text(ensemble: Ensemble, i: int) -> str:
    files = node_files(ensemble.directory / str(i) / "data" / "journal", f"peer-{i}")
    return "".join(path.read_text() for path in files)


def event_types(ensemble: Ensemble, i: int) -> list[str]:
    return [json.loads(line)["type"] for line in journal_text(ensemble, i).splitlines()]


def test_three_peers_elect_one_leader_and_journal_the_election(trio: Ensemble) -> None:
    leader = trio.wait_for_quorum()
    assert sorted(trio.modes().values()) == ["follower", "follower", "leader"]
    assert "leader_established" in event_types(trio, leader)


def test_kazoo_client_works_with_every_peer(trio: Ensemble) -> None:
    with trio.client(2) as two:
        with trio.client(1) as one:
            seen = threading.Event()
            one.create("/shared", b"1")
            two.sync("/shared")
            assert two.get("/shared", watch=lambda event: seen.set())[0] == b"1"
            one.set("/shared", b"2", version=0)
            assert seen.wait(10)
            with pytest.raises(BadVersionError):
                two.set("/shared", b"3", version=0)
            one.create("/shared/ephemeral", ephemeral=True)
            assert one.create("/shared/s-", sequence=True) == "/shared/s-0000000001"
            with one.Lock("/shared/lock", "one"):
                assert not two.Lock("/shared/lock", "two").acquire(blocking=False)
        two.sync("/shared")
        assert two.exists("/shared/ephemeral") is None


def test_four_letter_words_reply_as_in_zookeeper(trio: Ensemble) -> None:
    assert trio.word(1, "ruok") == "imok"
    assert trio.word(1, "isro") == "rw"
    assert "zookeeper.version=3.9.5-" in trio.word(1, "envi")
    mntr = dict(line.split("\t") for line in trio.word(1, "mntr").splitlines())
    assert mntr["zk_quorum_size"] == "3"
    assert mntr["zk_server_state"] in ("leader", "follower")
    with trio.client(1) as client:
        client.create("/words", ephemeral=True)
        client.exists("/words", watch=lambda event: None)
        session = f"0x{client.client_id[0] & (1 << 64) - 1:x}"
        assert f"sid={session}" in trio.word(1, "cons")
        assert f"{session}:\n\t/words\n" in trio.word(1, "dump")
        assert trio.word(1, "wchs") == "1 connections watching 1 paths\nTotal watches:1\n"
    assert "membership: \nserver.1=" in trio.word(1, "conf")
    assert trio.word(1, "dirs").startswith("datadir_size: ")
    assert "Clients:\n" in trio.word(1, "stat")


GARBAGE = [
    b"\xde\xad\xbe\xef" * 100,
    b"\x7f\xff\xff\xff",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    struct.pack(">i", 8) + b"\xff" * 8,
    struct.pack(">qqi", -65536, 77, 4) + b"host",
    struct.pack(">qqi", -65536, 1, 2000),
    struct.pack(">iqii", 99, 0, -1, -1),
    b"",
]


def test_garbage_on_any_port_closes_only_its_own_connection(trio: Ensemble) -> None:
    quorum, election = (int(part) for part in trio.server_lines[0].split(":")[1:])
    with trio.client(1) as client:
        for port in (trio.client_ports[1], quorum, election):
            for data in GARBAGE:
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
        # A connection with a frame over the limit is closed at once. An incomplete frame does not affect other clients.
        assert exchange(trio.client_ports[1], struct.pack(">i", 0x100000) + b"x") == b""
        with socket.create_connection(("127.0.0.1", trio.client_ports[1])) as half:
            half.sendall(struct.pack(">i", 100) + b"half")
            assert client.exists("/") is not None
        with pytest.raises((ConnectionLoss, ConnectionClosedError)):
            client.create("/huge", b"x" * 2_000_000)
        assert client.retry(client.exists, "/") is not None
    assert "Traceback" not in trio.log(1)
    assert trio.processes[1].poll() is None


def test_leader_kill_under_load_keeps_acknowledged_writes(trio: Ensemble) -> None:
    acknowledged: list[int] = []
    stop = threading.Event()
    with trio.client() as client:
        session = client.client_id
        client.create("/counter", b"0")

        def write() -> None:
            retry = KazooRetry(max_tries=-1, delay=0.01, backoff=1, ignore_expire=False)
            n = 0
            while not stop.is_set():
                n += 1
                retry(client.set, "/counter", str(n).encode())
                acknowledged.append(n)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(2):
                leader = trio.wait_for_quorum()
                wait_until_more(acknowledged)
                trio.kill(leader)
                wait_until_more(acknowledged)
                trio.start(leader)
                trio.wait_for_quorum()
        finally:
            stop.set()
            writer.join(30)
        assert client.client_id == session
    for i in trio.client_ports:
        with trio.client(i) as reader:
            reader.sync("/counter")
            assert int(reader.get("/counter")[0]) >= acknowledged[-1]


def wait_until_more(done: list[int]) -> None:
    """Wait until fifty more operations have completed."""
    goal = len(done) + 50
    wait_until(lambda: len(done) > goal)


def test_paused_zab_leader_is_replaced(trio: Ensemble) -> None:
    leader = trio.wait_for_quorum()
    others = [i for i in trio.client_ports if i != leader]
    pause(trio.processes[leader], True)
    try:
        with trio.client(*others) as client:
            client.create("/while-paused")
    finally:
        pause(trio.processes[leader], False)
    trio.wait_for_quorum()
    with trio.client(leader) as client:
        client.sync("/")
        assert client.exists("/while-paused") is not None


def test_isolated_zab_leader_resigns_and_rejoins_after_healing(trio: Ensemble) -> None:
    leader = trio.wait_for_quorum()
    others = [i for i in trio.client_ports if i != leader]
    set_faults(trio, leader, [f"peer-{i}" for i in others])
    try:
        with trio.client(*others) as client:
            client.create("/while-cut")
        wait_until(lambda: trio.modes()[leader] == "none")
    finally:
        set_faults(trio, leader, [])
    trio.wait_for_quorum()
    with trio.client(leader) as client:
        client.sync("/")
        assert client.exists("/while-cut") is not None


def set_faults(ensemble: Ensemble, node: int, remotes: list[str]) -> None:
    """Partition a node from others in both directions. The link faults are set on all of these nodes, as the agent
    does.
    """
    faults = [{"id": remote, "from": f"peer-{node}", "to": remote, "kind": "cut"} for remote in remotes]
    for i in ensemble.client_ports:
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(ensemble.directory / str(i) / "control"))
            control.sendall(json.dumps({"faults": faults, "node": f"peer-{i}", "names": {}}).encode() + b"\n")
            assert json.loads(control.recv(1000)) == {"ok": True}


def test_single_peer_stops_cleanly_and_restarts_with_its_data(solo: Ensemble) -> None:
    solo.start()
    assert solo.wait_for_quorum() == 1
    assert "Mode: standalone" in solo.word(1, "srvr")
    with solo.client() as client:
        client.create("/kept", b"here")
        client.create("/kept/ephemeral", ephemeral=True)
        session, password = client.client_id
        solo.kill(1)
        solo.start()
        assert client.retry(client.get, "/kept")[0] == b"here"
        assert client.exists("/kept/ephemeral") is not None
        assert client.client_id == (session, password)
    assert solo.stop(1) == 0
    assert event_types(solo, 1)[-1] == "node_stopped"
    solo.start()
    with solo.client() as client:
        assert client.exists("/kept") is not None
        assert client.exists("/kept/ephemeral") is None
    assert attach_by_hand(solo, session, password) == (0, 0)


def attach_by_hand(ensemble: Ensemble, session: int, password: bytes) -> tuple[int, int]:
    """Try to resume a session. Return the timeout and the session id in the server's response."""
    request = struct.pack(">iqiqi", 0, 0, 5000, session, len(password)) + password + b"\0"
    answer = exchange(ensemble.client_ports[1], struct.pack(">i", len(request)) + request)
    timeout_ms, granted = struct.unpack_from(">iq", answer, 8)
    return timeout_ms, granted


def test_incomplete_last_log_record_is_truncated_and_reported(solo: Ensemble) -> None:
    solo.start()
    solo.wait_for_quorum()
    with solo.client() as client:
        client.create("/kept", b"here")
    solo.kill(1)
    log = solo.data(1) / "log.100000001"
    used = log.read_bytes().rstrip(b"\0")
    log.write_bytes(used + struct.pack(">qi", 12345, 50) + b"half a record")
    solo.start()
    solo.wait_for_quorum()
    assert "log_damage_found" in event_types(solo, 1)
    with solo.client() as client:
        assert client.get("/kept")[0] == b"here"


def test_peer_that_cannot_start_logs_one_line_and_exits_1(solo: Ensemble) -> None:
    solo.start()
    solo.wait_for_quorum()
    port = solo.client_ports[1]
    other = solo.config(1).read_text().replace(str(solo.directory / "1" / "data"), str(solo.directory / "other"))
    (solo.directory / "2").mkdir()
    trials = {
        solo.config(1).read_text(): f"is in use by process {solo.processes[1].pid}",
        other: f"the client port 127.0.0.1:{port} cannot be opened: process {solo.processes[1].pid} (",
        other + "tickTime=soon\n": "tickTime=soon is not a number",
        other + "server.1=a:1:2\nserver.01=b:1:2\n": "two servers have the id 1",
    }
    (solo.directory / "other").mkdir()
    (solo.directory / "other" / "myid").write_text("1")
    for text, message in trials.items():
        solo.config(2).write_text(text)
        code, output = solo.run_to_its_end(2)
        assert code == 1
        assert message in output
        assert "Traceback" not in output
        assert output.splitlines()[-1].startswith("zabka peer: ")
    assert solo.word(1, "ruok") == "imok"


def test_damaged_log_is_rejected_with_its_file_name(solo: Ensemble) -> None:
    solo.start()
    solo.wait_for_quorum()
    with solo.client() as client:
        for n in range(5):
            client.create(f"/n{n}", b"x" * 100)
    solo.stop(1)
    log = solo.data(1) / "log.100000001"
    raw = bytearray(log.read_bytes())
    raw[300] ^= 0xFF
    log.write_bytes(raw)
    code, output = solo.run_to_its_end(1)
    assert code == 1
    assert "log.100000001: bad checksum at offset" in output
    assert "Traceback" not in output


def test_invalid_requests_close_at_most_their_own_connection(trio: Ensemble) -> None:
    draw = random.Random(20)
    ops = [*range(-12, 25), *range(100, 108), 2**31 - 1]
    bodies = [b"", b"\xff" * 4, b"\x7f\xff\xff\xff", struct.pack(">i", 2) + b"/a\1", struct.pack(">i", 5) + b"/a//b"]
    hello = struct.pack(">iqiqi", 0, 0, 5000, 0, 16) + bytes(17)
    for _ in range(60):
        frames = [hello]
        for _ in range(draw.randrange(1, 12)):
            body = draw.choice([*bodies, draw.randbytes(draw.randrange(60))])
            frames.append(struct.pack(">ii", draw.choice([1, -1, -2, -4, -8]), draw.choice(ops)) + body)
        with socket.create_connection(("127.0.0.1", trio.client_ports[draw.randrange(1, 4)])) as connection:
            connection.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    for i in trio.client_ports:
        with trio.client(i) as client:
            assert client.exists("/") is not None
        assert "Traceback" not in trio.log(i)


def test_snapshot_received_by_a_lagging_follower_survives_a_kill(trio: Ensemble) -> None:
    leader = trio.wait_for_quorum()
    late = next(i for i in trio.client_ports if i != leader)
    trio.kill(late)
    with trio.client(leader) as client:
        client.create("/missed")
        # These are more transactions than the leader keeps for a DIFF (committedLog, 500 transactions).
        for made in [client.create_async(f"/missed/{n}", b"x" * 50) for n in range(700)]:
            made.get(20)
        trio.start(late)
        trio.wait_for_quorum()
        assert '"mode":"SNAP"' in journal_text(trio, late)
        client.create("/missed/after")
    trio.kill(late)
    trio.start(late)
    trio.wait_for_quorum()
    with trio.client(late) as client:
        client.sync("/missed")
        assert len(client.get_children("/missed")) == 701
    for i in trio.client_ports:
        assert "invariant_violated" not in journal_text(trio, i)
