"""An operator's view of a running peer: four-letter words, admin server and metrics, as in ZooKeeper 3.9.5."""

from __future__ import annotations

import asyncio
import json
import pwd
import re
import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import QuotaExceededError
from kazoo.security import make_acl
from prometheus_client.parser import text_string_to_metric_families

from bench.free_ports import free_ports
from tests.ensemble.server.peer_processes import Ensemble, exchange, wait_until
from zabka.ensemble.client.aio import connect
from zabka.ensemble.server.operator.server_facts import environment

PROMETHEUS = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"


class Watched(Ensemble):
    """One peer with admin server and metrics, and a client that has created and watches some znodes."""

    def __init__(self, directory: Path, peers: int = 1) -> None:
        super().__init__(directory, peers)
        self.admin_port, self.metrics_port = free_ports(2)
        with self.config(1).open("a") as config:
            config.write(f"admin.enableServer=true\nadmin.serverPort={self.admin_port}\nadmin.snapshot.enabled=true\n")
            config.write(f"metricsProvider.className={PROMETHEUS}\nmetricsProvider.httpPort={self.metrics_port}\n")

    def get(self, path: str, port: int = 0, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Send a GET request, and return (status, headers, body)."""
        url = f"http://127.0.0.1:{port or self.admin_port}{path}"
        request = urllib.request.Request(url, headers={name.replace("_", "-"): text for name, text in headers.items()})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, dict(refused.headers), refused.read()

    def command(self, name: str, **headers: str) -> dict:
        return json.loads(self.get(f"/commands/{name}", **headers)[2])


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    ensemble = Watched(tmp_path_factory.mktemp("watched"))
    ensemble.start()
    try:
        ensemble.wait_for_quorum()
        yield ensemble
    finally:
        ensemble.close()


@pytest.fixture(scope="module")
def client(peer: Watched) -> Iterator[KazooClient]:
    with peer.client() as client:
        client.create("/watched", b"x")
        client.create("/watched/mine", ephemeral=True)
        client.exists("/watched/none", watch=lambda event: None)
        for n in range(130):
            client.set("/watched", b"y" * n)
        yield client


def session_of(client: KazooClient) -> str:
    return f"0x{client.client_id[0] & (1 << 64) - 1:x}"


# -- four-letter words -------------------------------------------------------------------------------------------------

FORMATS = {
    "conf": r"clientPort=\d+\nsecureClientPort=-1\ndataDir=.*version-2\ndataDirSize=\d+\ndataLogDir=.*version-2\n"
    r"dataLogSize=\d+\ntickTime=500\nmaxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=10000\n"
    r"clientPortListenBacklog=-1\nserverId=0\n",
    "cons": r" /127.0.0.1:\d+\[1\]\(queued=0,recved=\d+,sent=\d+,sid=0x[0-9a-f]+,lop=\w+,est=\d{13},to=10000,"
    r"lcxid=0x[0-9a-f]+,lzxid=0x[0-9a-f]+,lresp=\d+,llat=\d+,minlat=\d+,avglat=\d+,maxlat=\d+\)\n"
    r" /127.0.0.1:\d+\[0\]\(queued=0,recved=1,sent=0\)\n\n",
    "dirs": r"datadir_size: \d+\nlogdir_size: \d+\n",
    "envi": r"Environment:\nzookeeper\.version=3\.9\.5-zabka-[^\n]*\nhost\.name=.*\njava\.version=none: Python 3\..*\n"
    r"(.*\n)*user\.dir=.*\nos\.memory\.free=\d+MB\nos\.memory\.max=\d+MB\nos\.memory\.total=\d+MB\n(python\..*\n)+",
    "gtmk": r"306",
    "hash": r"100000080: -?\d+\n",
    "isro": r"rw",
    "ruok": r"imok",
    "srvr": r"Zookeeper version: 3\.9\.5-.*\nLatency min/avg/max: \d+/\d+\.\d+/\d+\nReceived: \d+\nSent: \d+\n"
    r"Connections: 2\nOutstanding: 0\nZxid: 0x1[0-9a-f]+\nMode: standalone\nNode count: \d+\n",
    "stat": r"Zookeeper version: .*\nClients:\n /127.0.0.1:\d+\[1\]\(queued=0,recved=\d+,sent=\d+\)\n"
    r" /127.0.0.1:\d+\[0\]\(queued=0,recved=1,sent=0\)\n\nLatency (.*\n)+",
    "wchs": r"1 connections watching 1 paths\nTotal watches:1\n",
    "wchc": r"0x[0-9a-f]+\n\t/watched/none\n\n",
    "wchp": r"/watched/none\n\t0x[0-9a-f]+\n\n",
    "dump": r"SessionTracker dump:\nSession Sets \(1\)/\(1\):\n1 expire at \w{3} \w{3} \d\d [\d:]{8} UTC \d{4}:\n"
    r"\t0x[0-9a-f]+\nephemeral nodes dump:\nSessions with Ephemerals \(1\):\n0x[0-9a-f]+:\n\t/watched/mine\n"
    r"Connections dump:\n\tip: /127.0.0.1:\d+ sessionId: 0x[0-9a-f]{8,}\n\tip: /127.0.0.1:\d+ sessionId: 0x0\n",
    "mntr": r"zk_version\t3\.9\.5-.*\nzk_server_state\tstandalone\n(zk_\w+\t-?[\d.]+\n)+",
}


@pytest.mark.parametrize("word", FORMATS)
def test_four_letter_word_response_has_zookeepers_format(peer: Watched, client: KazooClient, word: str) -> None:
    assert re.fullmatch(FORMATS[word], peer.word(1, word)), peer.word(1, word)


def test_connection_without_requests_is_listed_without_session(peer: Watched) -> None:
    before = dict(line.split("\t") for line in peer.word(1, "mntr").splitlines())
    with socket.create_connection(("127.0.0.1", peer.client_ports[1]), 5) as idle:
        line = f" /127.0.0.1:{idle.getsockname()[1]}[1](queued=0,recved=0,sent=0)\n"
        wait_until(lambda: line in peer.word(1, "cons"))
        assert line in peer.word(1, "stat")
        rows = dict(line.split("\t") for line in peer.word(1, "mntr").splitlines())
        assert int(rows["zk_num_alive_connections"]) == int(before["zk_num_alive_connections"]) + 1
    wait_until(lambda: line not in peer.word(1, "cons"))


def test_last_operation_is_listed_by_short_name_until_crst(peer: Watched, client: KazooClient) -> None:
    client.get("/watched")
    assert ",lop=GETD," in peer.word(1, "cons")
    assert peer.word(1, "crst") == "Connection stats reset.\n"
    assert ",lop=NA," in peer.word(1, "cons") and "recved=0,sent=0" in peer.word(1, "cons")


def test_four_letter_word_can_arrive_in_pieces_with_a_line_end(peer: Watched) -> None:
    with socket.create_connection(("127.0.0.1", peer.client_ports[1]), 5) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (b"r", b"uo", b"k\r\n"):
            connection.sendall(piece)
        assert connection.recv(100) == b"imok"


def test_stmk_reads_the_trace_mask_from_the_next_eight_bytes(peer: Watched) -> None:
    assert exchange(peer.client_ports[1], b"stmk" + (256).to_bytes(8, "big")) == b"256"
    assert peer.word(1, "gtmk") == "256"
    assert exchange(peer.client_ports[1], b"stmk") == b""
    assert peer.command("set_trace_mask?traceMask=306")["tracemask"] == 306


def test_invalid_path_characters_are_shown_as_question_marks(peer: Watched, client: KazooClient) -> None:
    async def watch() -> None:
        async with connect(peer.hosts) as watcher:
            await watcher.exists("/half of a pair \ud800", lambda event: None)
            asked = [asyncio.to_thread(peer.word, 1, word) for word in ("wchp", "wchc")]
            for answer in await asyncio.gather(*asked):
                assert "/half of a pair ?\n" in answer

    asyncio.run(watch())


def test_envi_works_without_home_or_writable_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nowhere(*_: object) -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    described = environment()
    monkeypatch.chdir(tmp_path)
    assert [described[key] for key in ("java.io.tmpdir", "user.name", "user.home", "user.dir")] == ["<NA>"] * 4


def test_unknown_four_letter_word_closes_without_a_reply(peer: Watched) -> None:
    assert exchange(peer.client_ports[1], b"xxxx") == b""


def test_srst_resets_the_counters(peer: Watched, client: KazooClient) -> None:
    client.set("/watched", b"z")
    assert peer.word(1, "srst") == "Server stats reset.\n"
    rows = dict(line.split("\t") for line in peer.word(1, "mntr").splitlines())
    assert (rows["zk_cnt_updatelatency"], rows["zk_cnt_fsynctime"]) == ("0", "0")
    client.set("/watched", b"z")
    rows = dict(line.split("\t") for line in peer.word(1, "mntr").splitlines())
    assert (rows["zk_cnt_updatelatency"], rows["zk_cnt_fsynctime"]) == ("1", "1")


# -- the admin server --------------------------------------------------------------------------------------------------


def test_every_admin_command_is_listed_and_works(peer: Watched, client: KazooClient) -> None:
    status, headers, page = peer.get("/commands")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    names = re.findall(r'<a href="/commands/(\w+)">', page.decode())
    assert {"configuration", "connections", "monitor", "voting_view", "zabstate"} <= set(names)
    for name in names:
        if name not in ("snapshot", "restore", "set_trace_mask", "leader"):
            answer = peer.command(name)
            assert (answer["command"], answer["error"]) == (name, None)
    assert peer.command("icfg") == {
        "initial_configuration": peer.config(1).read_text(),
        "command": "initial_configuration",
        "error": None,
    }
    assert peer.command("leader")["error"] == "server is not initialized", "as a standalone ZooKeeper replies"
    assert peer.command("nosuch") == {"command": "nosuch", "error": "Unknown command: nosuch"}
    assert peer.get("/other")[0] == 404


def test_admin_commands_return_zookeepers_fields(peer: Watched, client: KazooClient) -> None:
    session = client.client_id[0]
    assert list(peer.command("configuration"))[:9] == [
        "client_port", "data_dir", "data_log_dir", "tick_time", "max_client_cnxns", "min_session_timeout",
        "max_session_timeout", "server_id", "client_port_listen_backlog",
    ]  # fmt: skip
    assert peer.command("dump")["session_id_to_ephemeral_paths"] == {str(session): ["/watched/mine"]}
    assert peer.command("watches")["session_id_to_watched_paths"] == {str(session): ["/watched/none"]}
    assert peer.command("watches_by_path")["path_to_session_ids"] == {"/watched/none": [session]}
    assert peer.command("hash")["digests"][0]["zxid"] == 0x100000080
    assert peer.command("connections")["connections"][0]["session_id"] == session
    stats = peer.command("stat")
    assert stats["command"] == "stats", "the words are names of commands, too"
    assert stats["server_stats"]["server_state"] == "standalone"
    assert peer.command("monitor")["znode_count"] == stats["node_count"]


def test_snapshot_command_needs_permission_and_is_rate_limited(peer: Watched, client: KazooClient) -> None:
    assert peer.get("/commands/snapshot")[0] == 401
    assert peer.command("snapshot")["error"] == "Auth info is missing for the command"
    assert peer.command("snapshot", Authorization="karma a:b")["error"] == "Not authenticated"
    status, headers, body = peer.get("/commands/snapshot", Authorization="digest a:b")
    assert (status, body[:4], len(body)) == (200, b"ZKSN", int(headers["snapshot_size"]))
    zxid = headers["last_zxid"].removeprefix("0x")
    assert (peer.data(1) / f"snapshot.{zxid}").read_bytes() == body
    assert peer.command("last_snapshot")["zxid"] == zxid
    assert peer.get("/commands/snapshot", Authorization="digest a:b")[0] == 429


def test_snapshot_command_fails_without_a_leader(tmp_path: Path) -> None:
    """The snapshot command fails on a server without a leader, whose tree can contain uncommitted transactions."""
    ensemble = Watched(tmp_path, 2)
    with ensemble.config(1).open("a") as config:
        config.write("readonlymode.enabled=true\n")
    ensemble.start(1)
    try:
        wait_until(lambda: ensemble.word(1, "isro") == "ro")
        status, _, body = ensemble.get("/commands/snapshot", Authorization="digest a:b")
        assert status == 503 and "no leader" in json.loads(body)["error"]
    finally:
        ensemble.close()


def test_snapshot_command_requires_read_permission_on_root(peer: Watched, client: KazooClient) -> None:
    acl = client.get_acls("/")[0]
    client.set_acls("/", [make_acl("world", "anyone", read=True), make_acl("ip", "127.0.0.1", all=True)])
    try:
        assert peer.get("/commands/snapshot", Authorization="digest a:b")[0] == 403
    finally:
        client.set_acls("/", acl)


def test_restore_command_requires_post(peer: Watched) -> None:
    assert peer.get("/commands/restore")[0] == 401
    assert peer.command("restore", Authorization="digest a:b")["error"] == "restore takes a snapshot by POST"


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}],
)
def test_cross_site_requests_to_the_admin_server_are_rejected(peer: Watched, headers: dict[str, str]) -> None:
    status, _, body = peer.get("/commands/stat_reset", **headers)
    assert status == 403 and "error" in json.loads(body)
    assert peer.get("/metrics", peer.metrics_port, **headers)[0] == 403


GARBAGE = [b"\0" * 20_000, b"GET\r\n\r\n", b"PUT / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_closes_only_its_own_connection(peer: Watched, garbage: bytes) -> None:
    answer = exchange(peer.admin_port, garbage)
    assert not answer or re.match(rb"HTTP/1.1 4\d\d ", answer)
    assert peer.command("ruok")["error"] is None
    assert "Traceback" not in peer.log(1)


# -- metrics -----------------------------------------------------------------------------------------------------------


def test_prometheus_metrics_have_zookeepers_names(peer: Watched, client: KazooClient) -> None:
    client.set("/watched", b"z")
    status, headers, text = peer.get("/metrics", peer.metrics_port)
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    for name in ("znode_count", "watch_count", "ephemerals_count", "approximate_data_size", "outstanding_requests"):
        assert families[name].type == "gauge"
    assert families["watch_count"].samples[0].value == 1
    latency = {(s.name, s.labels.get("quantile")): s.value for s in families["updatelatency"].samples}
    assert latency["updatelatency_count", None] >= 1 and ("updatelatency", "0.99") in latency
    assert families["fsynctime"].type == "summary"
    assert b"\nconnection_rejected 0.0\n" in text and b"\nthrottled_ops 0.0\n" in text


def test_quotas_are_listed_by_namespace(peer: Watched, client: KazooClient) -> None:
    client.ensure_path("/zookeeper/quota/watched")
    client.create("/zookeeper/quota/watched/zookeeper_limits", b"count=9,bytes=-1")
    client.create("/zookeeper/quota/watched/zookeeper_stats", b"count=0,bytes=0")
    text = peer.get("/metrics", peer.metrics_port)[2].decode()
    assert '\nquota_count_limit_per_namespace{key="watched"} 9.0\n' in text
    assert '\nquota_count_usage_per_namespace{key="watched"} 2.0\n' in text
    assert "zk_watched_quota_count_limit_per_namespace\t9\n" in peer.word(1, "mntr")


def test_client_that_does_not_read_cannot_exhaust_memory(peer: Watched) -> None:
    def memory_mb() -> int:
        return int(peer.word(1, "envi").partition("os.memory.total=")[2].partition("MB")[0])

    async def ask() -> None:
        async with connect(peer.hosts) as client:
            await client.create("/large", bytes(1_000_000))
            before_mb = memory_mb()
            reads = [client.get("/large") for _ in range(600)]
            # The test does not read yet. So the replies fill the sockets' buffers, and the rest waits in the server.
            await asyncio.sleep(0)
            most_mb = max(memory_mb() for _ in range(20))
            assert most_mb < before_mb + 100
            assert {len(data) for data, _ in await asyncio.gather(*reads)} == {1_000_000}
            await client.delete("/large")

    asyncio.run(ask())


def test_with_a_limit_of_one_request_all_requests_get_replies(tmp_path: Path) -> None:
    peer = Watched(tmp_path)
    with peer.config(1).open("a") as config:
        config.write("request_throttle_max_requests=1\n")
    peer.start()
    try:
        peer.wait_for_quorum()

        async def ask() -> None:
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(connect(peer.hosts)) for _ in range(8)]
                for turn in range(5):
                    await asyncio.gather(*(each.create(f"/{n}-{turn}") for n, each in enumerate(clients)))
                assert len(await clients[0].get_children("/")) == 41

        asyncio.run(ask())
        rows = dict(line.split("\t") for line in peer.word(1, "mntr").splitlines())
        assert int(rows["zk_request_throttle_wait_count"]) > 0
        assert rows["zk_cnt_request_throttle_queue_time_ms"] == rows["zk_request_throttle_wait_count"]
    finally:
        peer.close()


def test_hard_quota_rejections_are_counted_per_top_level_znode(tmp_path: Path) -> None:
    peer = Watched(tmp_path)
    with peer.config(1).open("a") as config:
        config.write("enforceQuota=true\n")
    peer.start()
    try:
        peer.wait_for_quorum()
        with peer.client() as client:
            client.create("/full")
            client.ensure_path("/zookeeper/quota/full")
            client.create("/zookeeper/quota/full/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=1")
            client.create("/zookeeper/quota/full/zookeeper_stats", b"count=0,bytes=0")
            for _ in range(2):
                with pytest.raises(QuotaExceededError):
                    client.create("/full/more")
        assert "zk_full_quota_exceeded_error_per_namespace\t2\n" in peer.word(1, "mntr")
        families = peer.get("/metrics", peer.metrics_port)[2].decode()
        assert "# TYPE quota_exceeded_error_per_namespace counter\n" in families
        assert '\nquota_exceeded_error_per_namespace{key="full"} 2.0\n' in families
        assert peer.command("monitor")["full_quota_exceeded_error_per_namespace"] == 2
    finally:
        peer.close()
