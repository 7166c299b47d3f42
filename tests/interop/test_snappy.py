"""Snapshots compressed with snappy: our server reads what Apache ZooKeeper 3.9.5 has written, and vice versa."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = [pytest.mark.long, needs_java]


def forget_logs(directory: Path) -> None:
    """Delete all logs, and all snapshots except the newest one, so that the next start reads only that snapshot."""
    newest = max(directory.glob("snapshot.*"), key=lambda path: path.stat().st_mtime_ns)
    assert newest.suffix == ".snappy"
    for path in directory.glob("*.*"):
        if path != newest and path.name.startswith(("log.", "snapshot.")):
            path.unlink()


def test_java_and_zabka_start_from_each_others_snapshots(tmp_path: Path) -> None:
    ensemble = MixedEnsemble(tmp_path, 1)
    with ensemble.config(1).open("a") as config:
        config.write("snapshot.compression.method=snappy\nsnapCount=20\n")
    names = [f"n{i:03}" for i in range(200)]
    try:
        for start, mine in (
            (ensemble.start_java, names[:100]),
            (ensemble.start, names[100:]),
            (ensemble.start_java, []),
        ):
            start(1)
            ensemble.wait_for_quorum()
            with ensemble.client() as client:
                for name in mine:
                    client.create(f"/{name}", name.encode() * 50)
                there = set(client.get_children("/"))
                assert set(mine) <= there
                if mine != names[:100]:
                    assert len(there & set(names[:100])) >= 80
                    assert client.get("/n010")[0] == b"n010" * 50
            ensemble.kill(1)
            forget_logs(ensemble.data(1))
        assert len(there & set(names[100:])) >= 80
    finally:
        ensemble.close()
