"""Four-letter words beside Apache ZooKeeper 3.9.5's: the same lines and the same metrics, for the same requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.interop.metric_names import ABSENT, metrics_of
from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = needs_java

OURS_ONLY = {"current_epoch", "accepted_epoch", "outstanding_proposals"}
ALIKE = ("conf", "cons", "crst", "dirs", "gtmk", "hash", "isro", "ruok", "srst", "srvr", "stat", "wchc", "wchp", "wchs")


class Pair:
    """A lone ZooKeeper and a lone peer, each with a client that did the same."""

    def __init__(self, directory: Path) -> None:
        self.servers: list[MixedEnsemble] = []
        for name in ("java", "ours"):
            (directory / name).mkdir()
            self.servers.append(MixedEnsemble(directory / name, 1))
        self.servers[0].start_java(1)
        self.servers[1].start(1)

    def words(self, word: str) -> tuple[str, str]:
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
    """An answer without what differs from run to run: numbers, paths, versions, and ZooKeeper's own connection."""
    lines = [line for line in answer.split("\n") if "[0](queued=0,recved=1,sent=0)" not in line]
    lines = [re.sub(r"(?<=[Dd]ir=).*|(?<=version: ).*", "…", line) for line in lines]
    return [re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{9}\b|-?\d+(\.\d+)?", "N", line) for line in lines]


@pytest.mark.parametrize("word", ALIKE)
def test_an_answer_has_the_same_lines(pair: Pair, word: str) -> None:
    java, ours = pair.words(word)
    assert shape(ours) == shape(java)


def test_the_tree_digests_of_both_servers_agree(pair: Pair) -> None:
    java, ours = (answer.split() for answer in pair.words("hash"))
    assert len(java) == len(ours) == 2 and re.fullmatch(r"[0-9a-f]+:", ours[0])


def test_mntr_has_only_names_that_zookeeper_has(pair: Pair) -> None:
    java, ours = (
        {line.split("\t")[0].removeprefix("zk_") for line in answer.splitlines()} for answer in pair.words("mntr")
    )
    assert ours - java <= OURS_ONLY
    assert {"znode_count", "watch_count", "p99_updatelatency", "cnt_fsynctime", "connection_rejected"} <= ours & java


def test_every_metric_of_zookeeper_is_served_or_its_absence_explained(pair: Pair) -> None:
    java, ours = map(metrics_of, pair.words("mntr"))
    assert java - ours == {name for name in ABSENT if name in java}
    assert not ours & set(ABSENT), "no longer absent"


def test_counts_that_both_servers_keep_are_the_same(pair: Pair) -> None:
    java, ours = (dict(line.split("\t") for line in answer.splitlines()) for answer in pair.words("mntr"))
    for name in ("znode_count", "ephemerals_count", "approximate_data_size", "global_sessions", "server_state"):
        assert ours[f"zk_{name}"] == java[f"zk_{name}"], name


def test_dump_has_the_same_sessions_and_ephemerals(pair: Pair) -> None:
    java, ours = (answer.partition("Connections dump:")[0].splitlines() for answer in pair.words("dump"))
    # ZooKeeper keeps sets that became empty.
    lines = [line for line in java if not line.startswith("0 expire")]
    assert [re.sub(r"at .*", "at …", line) for line in shape("\n".join(ours))] == [
        re.sub(r"at .*", "at …", line) for line in shape("\n".join(lines))
    ]
