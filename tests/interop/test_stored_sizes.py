"""Stored data larger than jute.maxbuffer: our server starts with it, Apache ZooKeeper 3.9.5 does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.real_zookeeper import MixedEnsemble, needs_java


@needs_java
@pytest.mark.long
def test_oversized_close_session_stops_java_but_not_our_server(tmp_path: Path) -> None:
    """Our server starts with a logged closeSession that is larger than jute.maxbuffer; Apache ZooKeeper does not.

    All requests and znodes are within the limit of 4,096 bytes. Only the list of ephemerals in the closeSession exceeds
    it.
    """
    ensemble = MixedEnsemble(tmp_path, 1)
    ensemble.java_options = ("-Djute.maxbuffer=4096",)
    with ensemble.config(1).open("a") as config:
        config.write("jute.maxbuffer=4096\n")
    try:
        ensemble.start_java(1)
        ensemble.wait_for_quorum()
        with ensemble.client(1) as client:
            client.create("/kept", b"x" * 3000)
            for number in range(100):
                client.create(f"/{number:0100d}", ephemeral=True)
        ensemble.kill(1)
        ensemble.start_java(1)
        assert ensemble.processes[1].wait(30) == 1
        [length] = set(re.findall(r"Unreasonable length = (\d+)", ensemble.java_log(1)))
        ensemble.start(1)
        ensemble.wait_for_quorum()
        with ensemble.client(1) as client:
            assert sorted(client.get_children("/")) == ["kept", "zookeeper"]
        assert f"in the log has {length} bytes, which is more than jute.maxbuffer=4096 allows" in ensemble.log(1)
    finally:
        ensemble.close()
