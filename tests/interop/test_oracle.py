"""An ensemble of two servers, one of them Apache ZooKeeper 3.9.5, that use an oracle.

Either server can be the leader without the other one if the oracle allows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ensemble.server.peer_processes import wait_until
from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = [needs_java, pytest.mark.long]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[MixedEnsemble]:
    ensemble = MixedEnsemble(tmp_path, 2)
    for i in (1, 2):
        ensemble.config(i).write_text(f"{ensemble.config(i).read_text()}oraclePath={tmp_path}/{i}.oracle\n")
        answer(ensemble, i, "0")
    try:
        yield ensemble
    finally:
        ensemble.close()


def answer(ensemble: MixedEnsemble, i: int, word: str) -> None:
    (ensemble.directory / f"{i}.oracle").write_text(word)


@pytest.mark.parametrize("kinds", [("ours", "java"), ("java", "ours"), ("ours", "ours")], ids="-".join)
def test_survivor_serves_alone_and_the_other_server_rejoins(pair: MixedEnsemble, kinds: tuple[str, str]) -> None:
    start = {i: pair.start if kind == "ours" else pair.start_java for i, kind in zip((1, 2), kinds, strict=True)}
    start[1](1)
    start[2](2)
    leader = pair.wait_for_quorum()
    survivor = 3 - leader
    with pair.client() as client:
        client.create("/kept", b"both")
    pair.kill(leader)
    wait_until(lambda: pair.modes() == {survivor: "none"})
    answer(pair, survivor, "1")
    wait_until(lambda: pair.modes() == {survivor: "leader"})
    with pair.client(survivor) as client:
        client.set("/kept", b"alone")
    start[leader](leader)
    wait_until(lambda: pair.modes() == {survivor: "leader", leader: "follower"})
    with pair.client(leader) as client:
        assert client.get("/kept")[0] == b"alone"
    pair.kill(leader)
    with pair.client(survivor) as client:
        client.retry(client.set, "/kept", b"alone again")
    answer(pair, survivor, "0")
    wait_until(lambda: pair.modes() == {survivor: "none"})
