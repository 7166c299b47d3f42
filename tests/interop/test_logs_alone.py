"""Three peers start with logs but no snapshot, with and without snapshot.trust.empty.

The tests compare Apache ZooKeeper and our peers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ensemble.server.peer_processes import wait_until
from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = needs_java
IDS = (1, 2, 3)


def start(ensemble: MixedEnsemble, kind: str) -> None:
    (ensemble.start_java if kind == "java" else ensemble.start)(*IDS)


def files(ensemble: MixedEnsemble) -> dict[str, bytes]:
    """Return the contents of each peer's logs, snapshots and epoch files. Files like `.lock` are omitted."""
    return {
        f"{i}/{path.name}": path.read_bytes()
        for i in IDS
        for path in sorted(ensemble.data(i).iterdir())
        if path.name != ".lock"
    }


@pytest.mark.long
@pytest.mark.parametrize("kind", ["java", "ours"])
def test_logs_without_a_snapshot_are_rejected_until_trusted(tmp_path: Path, kind: str) -> None:
    ensemble = MixedEnsemble(tmp_path, 3)
    try:
        start(ensemble, kind)
        ensemble.wait_for_quorum()
        with ensemble.client() as client:
            for number in range(20):
                client.create(f"/n{number}", b"%d" % number)
        for i in IDS:
            ensemble.stop(i)
            for path in ensemble.data(i).glob("snapshot.*"):
                path.unlink()
        before = files(ensemble)
        start(ensemble, kind)
        wait_until(lambda: all(process.poll() is not None for process in ensemble.processes.values()))
        assert all(process.returncode != 0 for process in ensemble.processes.values())
        ensemble.processes.clear()
        assert files(ensemble) == before
        for i in IDS:
            with ensemble.config(i).open("a") as config:
                config.write("snapshot.trust.empty=true\n")
        start(ensemble, kind)
        ensemble.wait_for_quorum()
        with ensemble.client() as client:
            assert {client.get(f"/n{number}")[0] for number in range(20)} == {b"%d" % number for number in range(20)}
        for i in IDS:
            ensemble.stop(i)
            ensemble.config(i).write_text(ensemble.config(i).read_text().replace("snapshot.trust.empty=true\n", ""))
        start(ensemble, kind)
        ensemble.wait_for_quorum()
        with ensemble.client() as client:
            assert len(client.get_children("/")) == 21
    finally:
        ensemble.close()
