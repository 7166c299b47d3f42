"""Replies to four-letter words have the same lines and metrics as Apache ZooKeeper 3.9.5's, after the same requests."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import QuotaExceededError

from tests.ensemble.server.peer_processes import exchange, wait_until
from tests.interop.metric_names import ABSENT, metrics_of
from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = needs_java

OURS_ONLY = {"current_epoch", "accepted_epoch", "outstanding_proposals"}
ALIKE = ("conf", "cons", "crst", "dirs", "gtmk", "hash", "isro", "ruok", "srst", "srvr", "stat", "wchc", "wchp", "wchs")


class Pair:
    """A standalone ZooKeeper server and a standalone peer. A client of each has sent the same requests."""

    def __init__(self, directory: Path) -> None:
        self.servers: list[MixedEnsemble] = []
        for name in ("java", "ours"):
            (directory / name).mkdir()
            self.servers.append(MixedEnsemble(directory / name, 1))
            with self.servers[-1].config(1).open("a") as config:
                config.write("enforceQuota=true\nnio.sessionlessCnxnTimeout=2000\n")
        self.servers[0].start_java(1)
        self.servers[1].start(1)

    def replies(self, word: str) -> tuple[str, str]:
        java, ours = (server.word(1, word) for server in self.servers)
        return java, ours


def use(client: KazooClient) -> None:
    client.create("/used", b"x" * 10)
    client.create("/used/mine", ephemeral=True)
    client.get("/used", watch=lambda event: None)
    client.exists("/used/none", watch=lambda event: None)
    for _ in range(130):
        client.set("/used/mine", b"y")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    both = Pair(tmp_path_factory.mktemp("pair"))
    try:
        for server in both.servers:
            server.wait_for_quorum()
        with both.servers[0].client() as java, both.servers[1].client() as ours:
            use(java)
            use(ours)
            yield both
    finally:
        for server in both.servers:
            server.close()


def shape(answer: str) -> list[str]:
    """Return a reply without the parts that differ from run to run: numbers, paths and versions."""
    lines = [re.sub(r"(?<=[Dd]ir=).*|(?<=version: ).*", "…", line) for line in answer.split("\n")]
    return [re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{9}\b|-?\d+(\.\d+)?", "N", line) for line in lines]


def connections_apart(lines: list[str]) -> tuple[list[str], list[str]]:
    """Split a reply into the lines of connections and all other lines.

    Java lists connections in the order of a hash table.
    """
    return [line for line in lines if line[:2] != " /"], sorted(line for line in lines if line[:2] == " /")


@pytest.mark.parametrize("word", ALIKE)
def test_four_letter_word_replies_have_the_lines_of_zookeeper(pair: Pair, word: str) -> None:
    java, ours = pair.replies(word)
    assert connections_apart(shape(ours)) == connections_apart(shape(java))


@pytest.mark.parametrize("word", ["cons", "stat"])
def test_requesting_connection_is_listed_as_in_zookeeper(pair: Pair, word: str) -> None:
    for answer in pair.replies(word):
        assert [line.split("[")[1] for line in answer.splitlines() if "[0]" in line] == ["0](queued=0,recved=1,sent=0)"]


def is_listed(server: MixedEnsemble, line: str) -> bool:
    return line in server.word(1, "cons")


def test_connections_without_session_are_listed_as_in_zookeeper(pair: Pair) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.client_ports[1]), 5) for server in pair.servers]
    try:
        for server, connection in zip(pair.servers, idle, strict=True):
            line = f" /127.0.0.1:{connection.getsockname()[1]}[1](queued=0,recved=0,sent=0)\n"
            wait_until(partial(is_listed, server, line))
            assert "zk_num_alive_connections\t3\n" in server.word(1, "mntr")
            assert "Connections: 3\n" in server.word(1, "srvr")
    finally:
        for connection in idle:
            connection.close()


def test_connection_without_session_closes_after_its_time_limit(pair: Pair) -> None:
    """A connection without a session is closed after its time limit.

    Java closes it at the first multiple of the check interval after the limit.
    """
    for server in pair.servers:
        began_s = time.monotonic()
        assert exchange(server.client_ports[1], b"") == b""
        assert 2 <= time.monotonic() - began_s < 4.5
        assert "zk_sessionless_connections_expired\t1\n" in server.word(1, "mntr")


def test_envi_reply_has_every_key_of_zookeepers_in_order(pair: Pair) -> None:
    java, ours = ([line.split("=")[0] for line in answer.splitlines()] for answer in pair.replies("envi"))
    assert ours[: len(java)] == java and "java.version" in java
    assert all(key.startswith("python.") for key in ours[len(java) :])


def test_hard_quota_rejections_are_counted_as_in_zookeeper(pair: Pair) -> None:
    """Rejections by hard quotas are counted as in ZooKeeper.

    /quota/a has hard limits of two znodes and five bytes, and /soft has a soft limit. The test causes every kind of
    rejection.
    """

    def scene(server: MixedEnsemble) -> set[str]:
        with server.client() as client:
            for path, limits in (("/quota/a", b"count=-1,bytes=-1=;byteHardLimit=5;countHardLimit=2"),
                                 ("/soft", b"count=1,bytes=-1")):  # fmt: skip
                client.ensure_path(path)
                client.ensure_path(f"/zookeeper/quota{path}")
                client.create(f"/zookeeper/quota{path}/zookeeper_limits", limits)
                client.create(f"/zookeeper/quota{path}/zookeeper_stats", b"count=0,bytes=0")
            for path in ("/quota/a/1", "/quota/a/2", "/soft/1", "/soft/2", "/quota/b"):
                with suppress(QuotaExceededError):
                    client.create(path)
            with pytest.raises(QuotaExceededError):
                client.set("/quota/a", bytes(6))
            both = client.transaction()
            both.create("/quota/a/3")
            both.create("/elsewhere")
            both.commit()
            answers = [server.word(1, "mntr"), server.word(1, "srst"), server.word(1, "mntr")]
        return {line for line in "".join(answers).splitlines() if "quota_exceeded" in line}

    name = "zk_quota_quota_exceeded_error_per_namespace"
    found = [scene(server) for server in pair.servers]
    assert found == [{f"{name}\t3", f"{name}\t0"}] * 2


def test_hash_command_of_both_servers_has_the_same_format(pair: Pair) -> None:
    java, ours = (answer.split() for answer in pair.replies("hash"))
    assert len(java) == len(ours) == 2 and re.fullmatch(r"[0-9a-f]+:", ours[0])


def test_mntr_reply_has_only_metric_names_of_zookeeper(pair: Pair) -> None:
    java, ours = (
        {line.split("\t")[0].removeprefix("zk_") for line in answer.splitlines()} for answer in pair.replies("mntr")
    )
    assert ours - java <= OURS_ONLY
    assert {"znode_count", "watch_count", "p99_updatelatency", "cnt_fsynctime", "connection_rejected"} <= ours & java


def test_every_zookeeper_metric_is_served_or_noted_as_absent(pair: Pair) -> None:
    java, ours = map(metrics_of, pair.replies("mntr"))
    assert java - ours == {name for name in ABSENT if name in java}
    assert not ours & set(ABSENT), "no longer absent"


def test_mntr_counts_of_both_servers_are_equal(pair: Pair) -> None:
    java, ours = (dict(line.split("\t") for line in answer.splitlines()) for answer in pair.replies("mntr"))
    for name in ("znode_count", "ephemerals_count", "approximate_data_size", "global_sessions", "server_state"):
        assert ours[f"zk_{name}"] == java[f"zk_{name}"], name


def test_dump_lists_the_same_sessions_and_ephemerals(pair: Pair) -> None:
    java, ours = (answer.partition("Connections dump:")[0].splitlines() for answer in pair.replies("dump"))
    # ZooKeeper does not remove session sets that have become empty.
    lines = [line for line in java if not line.startswith("0 expire")]
    assert [re.sub(r"at .*", "at …", line) for line in shape("\n".join(ours))] == [
        re.sub(r"at .*", "at …", line) for line in shape("\n".join(lines))
    ]
