"""Real processes: an ensemble changes its members while clients write, and still has the new members after restarts."""

from __future__ import annotations

from pathlib import Path

from bench.free_ports import free_ports
from tests.ensemble.server.peer_processes import Ensemble, wait_until
from tests.ensemble.server.reconfig_processes import (
    add_newcomer,
    enable,
    reconfigure,
    super_client,
    wait_for_membership,
    write,
)


def test_observer_becomes_a_voter_and_then_the_leader_leaves(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, 3)
    try:
        enable(ensemble)
        ensemble.start(1, 2, 3)
        leader = ensemble.wait_for_quorum()
        address = add_newcomer(ensemble, 4)
        with super_client(ensemble) as client:
            write(client, 1)
            ensemble.start(4)
            text = reconfigure(client, joining=f"server.4={address}:observer;127.0.0.1:{ensemble.client_ports[4]}")
            assert f"server.4={address}:observer;127.0.0.1:{ensemble.client_ports[4]}" in text
            wait_until(lambda: ensemble.modes()[4] == "observer")
            write(client, 2)
            text = reconfigure(client, joining=f"server.4={address}:participant;127.0.0.1:{ensemble.client_ports[4]}")
            wait_until(lambda: ensemble.modes()[4] == "follower")
            write(client, 3)
            text = reconfigure(client, leaving=str(leader))
            wait_until(lambda: ensemble.leader() not in (None, leader))
            assert ensemble.stop(leader) == 0
            write(client, 4)
            left = tuple(ensemble.processes)
            wait_for_membership(ensemble, text, left)
            # The servers have stored the membership in their files, so they restart as the same ensemble.
            for i in left:
                ensemble.kill(i)
            assert "dynamicConfigFile=" in ensemble.config(left[0]).read_text()
            ensemble.start(*left)
            ensemble.wait_for_quorum()
            wait_for_membership(ensemble, text, left)
            write(client, 5)
            assert sorted(client.retry(client.get_children, "/kept")) == ["1", "2", "3", "4", "5"]
        code, output = ensemble.run_to_its_end(leader)
        assert (code, f"there is no server.{leader}" in output) == (1, True), "the server knows that it was removed"
    finally:
        ensemble.close()


def test_server_can_be_moved_to_other_ports_by_reconfig(tmp_path: Path) -> None:
    """A server that moves listens on its new client, quorum and election ports, and the others connect to it there."""
    ensemble = Ensemble(tmp_path, 3)
    try:
        enable(ensemble)
        ensemble.start(1, 2, 3)
        leader = ensemble.wait_for_quorum()
        moved = next(i for i in (1, 2) if i != leader)
        client_port, quorum, election = free_ports(3)
        with super_client(ensemble) as client:
            text = reconfigure(client, joining=f"server.{moved}=127.0.0.1:{quorum}:{election};127.0.0.1:{client_port}")
            ensemble.client_ports[moved] = client_port
            wait_for_membership(ensemble, text, (1, 2, 3))
            conf = ensemble.word(moved, "conf")
            expected_lines = f"clientPort={client_port}\n", f"quorumPort={quorum}\n", f"electionPort={election}\n"
            assert all(line in conf for line in expected_lines), "conf shows the new ports"
            members = ",".join(line.partition(";")[0] for line in text.splitlines() if line.startswith("server."))
            text = client.retry(client.reconfig, None, None, members)[0].decode()
            wait_for_membership(ensemble, text, (1, 2, 3))
            assert f"clientPort={client_port}\n" in ensemble.word(moved, "conf"), (
                "a line without a client port keeps it"
            )
            # In the next election, the other servers use the new port of the moved server.
            ensemble.kill(leader)
            ensemble.kill(next(i for i in (1, 2, 3) if i not in (leader, moved)))
            other = 3 if leader != 3 else 2
            ensemble.start(other)
            wait_until(lambda: ensemble.leader() is not None)
            write(client, 1)
    finally:
        ensemble.close()


def test_servers_restart_after_all_have_moved(tmp_path: Path) -> None:
    """After all servers have moved by reconfig, each restarts with its data, at the new addresses.

    Each data directory contains the new addresses as those of its ensemble. Therefore a restarted server does not
    reject its directory as the data of another ensemble.
    """
    ensemble = Ensemble(tmp_path, 3)
    try:
        enable(ensemble)
        for i in (1, 2, 3):
            lines = ensemble.config(i).read_text().splitlines()
            kept = [line for line in lines if not line.startswith("zabka.control.socket")]
            ensemble.config(i).write_text("\n".join(kept) + "\n")
        ensemble.start(1, 2, 3)
        ensemble.wait_for_quorum()
        for moved in (1, 2, 3):
            client_port, quorum, election = free_ports(3)
            line = f"server.{moved}=127.0.0.1:{quorum}:{election};127.0.0.1:{client_port}"
            with super_client(ensemble) as client:
                text = reconfigure(client, joining=line)
            ensemble.client_ports[moved] = client_port
            wait_for_membership(ensemble, text, (1, 2, 3))
        for i in (1, 2, 3):
            ensemble.kill(i)
        ensemble.start(1, 2, 3)
        ensemble.wait_for_quorum()
    finally:
        ensemble.close()
