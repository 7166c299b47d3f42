"""A snapshot uploaded over HTTP or HTTPS replaces all data of a server: access control, checks and crash safety."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.security import make_acl

from bench.free_ports import free_ports
from tests.ensemble.server.peer_processes import Ensemble, wait_until
from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.ensemble.txnlog.test_restoring import ZXID, file_of
from zabka.ensemble.ids import Epoch, make_zxid
from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.server.config.zoo_cfg import parse
from zabka.ensemble.server.operator.admin_commands import OBSERVER_RESTORES_NOTHING
from zabka.ensemble.server.operator.http_body import Body
from zabka.ensemble.server.operator.metrics import OnDemandCounts
from zabka.ensemble.server.operator.on_demand_snapshots import Refusal
from zabka.ensemble.server.operator.restores import Restores
from zabka.ensemble.server.operator.words import NOT_SERVING
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.epochs import ACCEPTED, write_epoch
from zabka.ensemble.txnlog.recovery import RecoveryPolicy, recover
from zabka.ensemble.txnlog.restoring import EPOCHS_AHEAD, RECEIVED_NAME, read_received, restored_zxid, take_received


def sent(data: bytes, length: int | None = None) -> Body:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return Body(reader, None, len(data) if length is None else length, waits=False)  # type: ignore[arg-type]


def received(restores: Restores, data: bytes, length: int | None = None) -> object:
    async def run() -> object:
        return await restores.receive(sent(data, length) if data else None)

    return asyncio.run(run())


def status(answer: object) -> int:
    assert isinstance(answer, Refusal)
    return answer.status


@pytest.fixture
def counts() -> OnDemandCounts:
    return OnDemandCounts()


# -- receiving an uploaded snapshot ----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_uploaded_snapshot_is_stored_for_the_next_start(tmp_path: Path, counts: OnDemandCounts, suffix: str) -> None:
    restores = Restores(tmp_path, lambda zxid: zxid, 0, counts)
    assert received(restores, file_of(tmp_path, suffix=suffix)) == ZXID
    assert read_received(tmp_path / RECEIVED_NAME).zxid == ZXID


def test_invalid_snapshot_is_rejected_and_leaves_no_file(tmp_path: Path, counts: OnDemandCounts) -> None:
    restores, data = Restores(tmp_path, lambda zxid: zxid, 0, counts), file_of(tmp_path)
    for bad in (b"x", data[:-9], data[:40] + b"!" + data[41:], data[:-20] + bytes(20), b"\x1f\x8b" + data):
        assert status(received(restores, bad)) == 400
    assert status(received(restores, data, len(data) + 1)) == 400
    assert status(received(restores, b"")) == 400
    assert counts.restore_error_count == 6
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_restore_must_be_enabled_and_is_rate_limited(tmp_path: Path, counts: OnDemandCounts) -> None:
    data = file_of(tmp_path)
    assert status(received(Restores(tmp_path, lambda zxid: zxid, None, counts), data)) == 503
    rare = Restores(tmp_path, lambda zxid: zxid, 300_000, counts)
    assert received(rare, data) == ZXID
    assert status(received(rare, data)) == 429
    assert counts.restore_rate_limited_count == 1


@pytest.mark.parametrize(("accepted", "of"), [(1, 102), (5, 5), (4, 5), (9, 5), (4, 104)])
def test_restored_epoch_is_later_than_epochs_started_meanwhile(
    tmp_path: Path, counts: OnDemandCounts, accepted: int, of: int
) -> None:
    """A restored server starts several epochs after its accepted epoch, or in the backup's epoch if that is later.

    The gap is necessary because the other servers can start new epochs before this server has restarted. The reply
    contains the zxid with which server 2 then starts. A backup with a later epoch keeps its zxid.
    """
    zxid = make_zxid(of, 7) if of > accepted + EPOCHS_AHEAD else make_zxid(accepted + EPOCHS_AHEAD, 2)
    restores = Restores(tmp_path, lambda snapshot: restored_zxid(snapshot, Epoch(accepted), 2), 0, counts)
    assert received(restores, file_of(tmp_path, make_zxid(Epoch(of), 7))) == zxid
    write_epoch(tmp_path, ACCEPTED, accepted)
    assert take_received(Directories(tmp_path, tmp_path), 2) == zxid
    recovered = recover(Directories(tmp_path, tmp_path), RecoveryPolicy(other_voters=2)).recovered
    assert recovered.snapshot is not None and recovered.snapshot.zxid == zxid
    assert recovered.accepted_epoch == recovered.current_epoch == zxid >> 32


# -- running servers -------------------------------------------------------------------------------------------------


class Restorable(Ensemble):
    """One peer whose admin server accepts HTTP and HTTPS, and requests client certificates."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 1)
        authority = Authority(directory / "ssl")
        store = authority.store("peer", "/CN=peer", "DNS:localhost,IP:127.0.0.1")
        (self.admin_port,) = free_ports(1)
        self.context = ssl.create_default_context(cafile=str(authority.ca))
        certificate, key = authority.issue("ann", "/CN=ann")
        self.context.load_cert_chain(certificate, key)
        self.stranger = ssl.create_default_context(cafile=str(authority.ca))
        with self.config(1).open("a") as config:
            config.write(
                f"admin.enableServer=true\nadmin.serverPort={self.admin_port}\nadmin.snapshot.enabled=true\n"
                "admin.restore.enabled=true\nadmin.rateLimiterIntervalInMS=0\nadmin.portUnification=true\n"
                "authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n"
                f"admin.needClientAuth=true\nssl.quorum.keyStore.location={store}\n"
                f"ssl.quorum.trustStore.location={authority.ca}\n"
            )

    def ask(self, command: str, data: bytes | None = None, auth: str = "", *, tls: bool = False) -> tuple[int, bytes]:
        """Send a command to the admin server, and return (status, body)."""
        scheme = "https" if tls else "http"
        url = f"{scheme}://127.0.0.1:{self.admin_port}/commands/{command}"
        request = urllib.request.Request(url, data=data, headers={"Authorization": auth} if auth else {})
        try:
            with urllib.request.urlopen(request, timeout=10, context=self.context if tls else None) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restorable]:
    ensemble = Restorable(tmp_path_factory.mktemp("restorable"))
    ensemble.start()
    try:
        ensemble.wait_for_quorum()
        yield ensemble
    finally:
        ensemble.close()


@needs_openssl
def test_restore_replaces_the_data_with_an_uploaded_snapshot(peer: Restorable) -> None:
    with peer.client() as client:
        client.create("/kept", b"then")
        taken = peer.ask("snapshot", auth="digest a:b")
        client.set("/kept", b"now")
        client.create("/later", b"x")
        client.set_acls("/", [make_acl("x509", "CN=ann", all=True), make_acl("world", "anyone", read=True)])
        assert peer.ask("restore", taken[1])[0] == 401
        assert peer.ask("restore", taken[1], "digest a:b")[0] == 403
        assert peer.ask("restore", taken[1], "x509")[0] == 401, "no client certificate was sent"
        assert peer.ask("restore", bytes(3_000_000), "digest a:b", tls=True)[0] == 403
        before = peer.word(1, "srvr")
        status, body = peer.ask("restore", taken[1], "x509", tls=True)
        assert status == 200, body
        assert json.loads(body)["command"] == "restore"
        wait_until(lambda: "Node count: 6" in peer.word(1, "srvr") and before != peer.word(1, "srvr"))
    with peer.client() as client:
        assert client.get("/kept")[0] == b"then"
        assert client.exists("/later") is None
        client.create("/after")
    assert "the history is that of a restored snapshot" in peer.log(1)
    peer.kill(1)
    peer.start(1)
    peer.wait_for_quorum()
    with peer.client() as client:
        assert sorted(client.get_children("/")) == ["after", "kept", "zookeeper"]


@needs_openssl
def test_admin_port_accepts_http_and_https_but_no_unknown_client(peer: Restorable) -> None:
    assert peer.ask("ruok")[0] == peer.ask("ruok", tls=True)[0] == 200
    with pytest.raises(OSError), urllib.request.urlopen(
        f"https://127.0.0.1:{peer.admin_port}/commands/ruok", timeout=10, context=peer.stranger
    ) as answer:  # fmt: skip
        answer.read()


def epoch_at(ensemble: Ensemble, i: int) -> int:
    lines = [line for line in ensemble.word(i, "srvr").splitlines() if line.startswith("Zxid: ")]
    return int(lines[0].split()[1], 16) >> 32 if lines else 0


@pytest.mark.long
def test_ensemble_syncs_to_a_snapshot_restored_on_one_server(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, 3)
    ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
    for i, port in ports.items():
        with ensemble.config(i).open("a") as config:
            config.write(f"admin.enableServer=true\nadmin.serverPort={port}\nadmin.restore.enabled=true\n")
    data = file_of(tmp_path, make_zxid(Epoch(400), 7))
    try:
        ensemble.start()
        ensemble.wait_for_quorum()
        with ensemble.client() as client:
            client.create("/gone")
        url = f"http://127.0.0.1:{ports[1]}/commands/restore"
        request = urllib.request.Request(url, data=data, headers={"Authorization": "digest a:b"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.loads(answer.read())["last_zxid"] == make_zxid(Epoch(400), 7)
        wait_until(lambda: all(epoch_at(ensemble, i) >= 400 for i in (1, 2, 3)))
        ensemble.wait_for_quorum()
        for i in (1, 2, 3):
            with ensemble.client(i) as client:
                client.sync("/")
                assert client.exists("/gone") is None
                client.create(f"/by-{i}")
                assert client.last_zxid >> 32 >= 401
    finally:
        ensemble.close()


class Restorables(Ensemble):
    """Three peers whose admin servers restore snapshots without a rate limit."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 3)
        self.admin_ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
        for i, port in self.admin_ports.items():
            with self.config(i).open("a") as config:
                config.write(
                    f"admin.enableServer=true\nadmin.serverPort={port}\nadmin.snapshot.enabled=true\n"
                    "admin.restore.enabled=true\nadmin.rateLimiterIntervalInMS=0\n"
                )

    def ask(self, i: int, command: str, data: bytes | None = None) -> bytes:
        """Send a command to server `i` and return the body.

        Like `curl -f`, raises HTTPError if the status is 400 or above.
        """
        url = f"http://127.0.0.1:{self.admin_ports[i]}/commands/{command}"
        request = urllib.request.Request(url, data=data, headers={"Authorization": "digest a:b"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def try_ask(self, i: int, command: str) -> bytes:
        """Send a command as `ask` does. Return an empty result while the admin port is not open."""
        try:
            return self.ask(i, command)
        except urllib.error.URLError:
            return b""


@pytest.mark.long
def test_backup_of_epoch_1_is_restored_on_a_fresh_ensemble(tmp_path: Path) -> None:
    """A backup is restored as in ZooKeeper's guide.

    Take a snapshot, stop all servers, empty their directories, start them, and restore the snapshot on each server.
    """
    ensemble = Restorables(tmp_path)
    try:
        ensemble.start()
        ensemble.wait_for_quorum()
        with ensemble.client() as client:
            for number in range(5):
                client.create(f"/n{number}", b"%d" % number)
            client.sync("/")
        backup = max((ensemble.ask(i, "snapshot") for i in (1, 2, 3)), key=len)
        for i in (1, 2, 3):
            ensemble.stop(i)
            shutil.rmtree(ensemble.data(i))
        ensemble.start()
        ensemble.wait_for_quorum()
        # Restore on the next server at once, while the previous restore still causes an election.
        for i in (1, 2, 3):
            answer = json.loads(ensemble.ask(i, "restore", backup))
            assert answer["error"] is None and answer["last_zxid"] > make_zxid(1, 0)
        wait_until(lambda: all(epoch_at(ensemble, i) >= 2 for i in (1, 2, 3)))
        ensemble.wait_for_quorum()
        for i in (1, 2, 3):
            with ensemble.client(i) as client:
                client.sync("/")
                assert [client.get(f"/n{number}")[0] for number in range(5)] == [b"%d" % n for n in range(5)]
                client.create(f"/by-{i}")
    finally:
        ensemble.close()


@pytest.mark.long
@pytest.mark.parametrize("writes", [True, False])
def test_restored_leader_wins_although_another_was_elected(tmp_path: Path, writes: bool) -> None:
    """A restored leader wins the election although the other servers have elected another leader meanwhile.

    The restored leader takes seconds to load a large backup. During this time the other servers start the next epoch.
    """
    ensemble = Ensemble(tmp_path, 3)
    try:
        ensemble.start()
        leader = ensemble.wait_for_quorum()
        (ensemble.data(leader) / RECEIVED_NAME).write_bytes(file_of(tmp_path, make_zxid(Epoch(1), 7)))
        ensemble.kill(leader)
        ensemble.wait_for_quorum()
        if writes:
            with ensemble.client(*ensemble.processes) as client:
                client.create("/later")
        ensemble.start(leader)
        wait_until(lambda: all(epoch_at(ensemble, i) > EPOCHS_AHEAD for i in (1, 2, 3)))
        ensemble.wait_for_quorum()
        for i in (1, 2, 3):
            with ensemble.client(i) as client:
                client.sync("/")
                assert client.get_children("/") == ["zookeeper"]
    finally:
        ensemble.close()


@pytest.mark.parametrize("command", ["snapshot", "restore"])
def test_restricted_command_without_quorum_returns_503(tmp_path: Path, command: str) -> None:
    """An admin command returns 503 while there is no quorum.

    ZooKeeper returns 200 with an error in the body, which `curl -f` treats as success.
    """
    ensemble = Restorables(tmp_path)
    try:
        ensemble.start(1)
        wait_until(lambda: b"ruok" in ensemble.try_ask(1, "ruok"))
        with pytest.raises(urllib.error.HTTPError) as refused:
            ensemble.ask(1, command, b"x" if command == "restore" else None)
        with refused.value as answer:
            assert answer.code == 503
            assert json.loads(answer.read())["error"] == NOT_SERVING.strip()
        with pytest.raises(urllib.error.HTTPError) as refused:
            ensemble.ask(1, "zabstate", b"x")
        with refused.value as answer:
            assert answer.code == 405
    finally:
        ensemble.close()


def test_restore_on_an_observer_returns_409(tmp_path: Path) -> None:
    """Restoring on an observer is rejected.

    An observer has no vote, so after its next start it would replace the restored tree with its leader's tree.
    """
    ensemble = Restorables(tmp_path)
    for config in map(ensemble.config, (1, 2, 3)):
        config.write_text(re.sub(r"^(server\.3=.*)$", r"\1:observer", config.read_text(), flags=re.MULTILINE))
    backup = file_of(tmp_path, make_zxid(Epoch(1), 7))
    try:
        ensemble.start()
        wait_until(lambda: "Mode: observer" in ensemble.word(3, "srvr"))
        with pytest.raises(urllib.error.HTTPError) as refused:
            ensemble.ask(3, "restore", backup)
        with refused.value as answer:
            assert answer.code == 409
            assert json.loads(answer.read())["error"] == OBSERVER_RESTORES_NOTHING
        assert not (ensemble.data(3) / RECEIVED_NAME).exists()
    finally:
        ensemble.close()


def test_https_admin_server_uses_the_servers_tls_stores(tmp_path: Path) -> None:
    lines = f"dataDir={tmp_path}\nclientPort=1\nadmin.enableServer=true\nadmin.forceHttps=true\n"
    with pytest.raises(ConfigError, match=r"ssl\.quorum\.keyStore\.location is not set"):
        parse(lines)
    config = parse(f"{lines}ssl.quorum.keyStore.location=/k.pem\nssl.quorum.trustStore.location=/t.pem\n")
    assert config.admin is not None and config.admin.tls is not None
    assert (config.admin.https_only, config.admin.tls.client_auth, config.quorum_tls) == (True, "none", None)
    assert config.admin.restores_interval_ms is None, "restore is off by default, because it replaces all data"
