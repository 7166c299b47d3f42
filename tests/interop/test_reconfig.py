"""Our servers and Apache ZooKeeper 3.9.5 in one ensemble whose members change.

Servers of each implementation follow a leader of the other implementation, which commits membership changes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ensemble.server.reconfig_processes import (
    add_newcomer,
    enable,
    reconfigure,
    super_client,
    wait_for_membership,
    wait_until,
    write,
)
from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = needs_java


@pytest.mark.parametrize("java", [(2, 3), (1, 2)], ids=["a Java leader", "Java followers"])
def test_java_and_zabka_servers_apply_each_others_reconfigs(tmp_path: Path, java: tuple[int, ...]) -> None:
    ensemble = MixedEnsemble(tmp_path, 3)
    try:
        enable(ensemble)
        # First start the servers of the implementation that should lead.
        if 3 in java:
            ensemble.start_java(*java)
            ensemble.wait_for_quorum()
            ensemble.start(1)
        else:
            ensemble.start(3)
            wait_until(lambda: ensemble.word(3, "ruok") == "imok")
            ensemble.start_java(*java)
        leader = ensemble.wait_for_quorum()
        assert (leader in java) == (3 in java)
        address = add_newcomer(ensemble, 4)
        ensemble.start(4) if 3 in java else ensemble.start_java(4)
        client_address = f"127.0.0.1:{ensemble.client_ports[4]}"
        with super_client(ensemble) as client:
            write(client, 1)
            text = reconfigure(client, joining=f"server.4={address}:observer;{client_address}")
            wait_until(lambda: ensemble.modes()[4] == "observer")
            wait_for_membership(ensemble, text, (1, 2, 3, 4))
            write(client, 2)
            text = reconfigure(client, joining=f"server.4={address}:participant;{client_address}")
            wait_until(lambda: ensemble.modes()[4] == "follower")
            wait_for_membership(ensemble, text, (1, 2, 3, 4))
            write(client, 3)
            text = reconfigure(client, leaving="3")
            wait_until(lambda: ensemble.leader() not in (None, 3))
            write(client, 4)
            wait_for_membership(ensemble, text, (1, 2, 4))
            assert sorted(client.retry(client.get_children, "/kept")) == ["1", "2", "3", "4"]
    finally:
        ensemble.close()
